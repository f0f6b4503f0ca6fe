#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Which files make a checkpoint: parts of a split GGUF, pointers of Git LFS in place of files, tokenizers by their vocabulary's size."""

import json
import re

import gguf
import numpy as np
import pytest

from golden_checkpoints import Golden
from litetern.host.pack import pack
from litetern.model.importers import files_of, load_checkpoint
from litetern.model.numerics.reference import ReferenceModel
from litetern.model.tokenizer.text import read_records
from litetern.model.tokenizer.tokenizer import load_tokenizer

from hostile_files import llama2c, tokenizer_bin
from test_importers_marks import BYTES, gguf_file
from tiny_checkpoint import tokenizer, write_checkpoint

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


def refused(path):
    """The one line with which a checkpoint is refused."""
    with pytest.raises(ValueError) as error:
        load_checkpoint(path)
    assert "\n" not in str(error.value) and str(path.parent if path.is_file() else path) in str(error.value)
    return str(error.value)

# Split GGUF ---------------------------------------------------------------------------------------


def split(path, count, no=None, total=None, empty=False):
    """Writes the parts of a GGUF beside it, as llama.cpp's gguf-split does; returns their paths. empty: the first has no tensors."""
    reader, parts = gguf.GGUFReader(path), [path.with_name(f"m-{part + 1:05}-of-{count:05}.gguf") for part in range(count)]
    for part, name in enumerate(parts):
        writer = gguf.GGUFWriter(name, "llama")
        if part == 0:
            for key, field in reader.fields.items():
                if not key.startswith("GGUF.") and key != "general.architecture":
                    writer.add_key_value(key, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
        writer.add_uint16("split.no", part if no is None else no)
        writer.add_uint16("split.count", count)
        writer.add_int32("split.tensors.count", len(reader.tensors) if total is None else total)
        for index, tensor in enumerate(reader.tensors):
            if (index % (count - 1) + 1 if empty else index % count) == part:
                writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    path.unlink()
    return parts


@pytest.mark.parametrize("count, empty", [(2, False), (5, False), (3, True)])
@pytest.mark.parametrize("name", ["gguf_float", "gguf_tq1_0"])
def test_split_gguf(tmp_path, name, count, empty):
    """Any part stands for all."""
    golden   = Golden(name, tmp_path)
    expected = ReferenceModel(load_checkpoint(golden.path)).logits(golden.tokens)
    parts    = split(golden.path, count, empty=empty)
    for part in parts:
        checkpoint = load_checkpoint(part)
        assert checkpoint.name == "tiny"
        np.testing.assert_array_equal(ReferenceModel(checkpoint).logits(golden.tokens), expected)


def test_split_gguf_that_is_not_whole(tmp_path):
    golden = Golden("gguf_float", tmp_path)
    parts  = split(golden.path, 3)
    kept   = parts[1].read_bytes()
    parts[1].unlink()
    assert "one of 3 parts of a split file, of which m-00002-of-00003.gguf is missing (1 of 3 are)" in refused(parts[2])
    parts[1].write_bytes(parts[0].read_bytes())
    assert "m-00002-of-00003.gguf: says that it is part 1 of 3, its name says 2 of 3" in refused(parts[0])
    parts[1].write_bytes(kept)
    load_checkpoint(parts[0])
    parts[0].rename(tmp_path/"other.gguf")
    assert "give them their names, or join them first" in refused(tmp_path/"other.gguf")


def test_split_gguf_of_other_tensors(tmp_path):
    parts = split(Golden("gguf_float", tmp_path).path, 2, total=7)
    assert re.search(r"the parts of its split file hold \d+ tensors, 7 are stated", refused(parts[0]))

# Git LFS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
def test_pointers_in_a_folder(tmp_path, file):
    folder = write_checkpoint(tmp_path/"m")
    (folder/file).write_text(POINTER)
    assert f"{file}: is a pointer of Git LFS, not the file itself: run `git lfs pull`" in refused(folder)


@pytest.mark.parametrize("name", ["m.gguf", "m.bin"])
def test_pointers_of_single_files(tmp_path, name):
    (tmp_path/name).write_text(POINTER)
    assert "run `git lfs pull`" in refused(tmp_path/name)

# Tokenizers ---------------------------------------------------------------------------------------


def test_llama2c_tokenizer_by_its_size(tmp_path):
    """A tok60.bin belongs to a vocabulary of 60, whatever tokenizer.bin lies beside it."""
    (tmp_path/"m.bin").write_bytes(llama2c())
    vocab = load_checkpoint(tmp_path/"m.bin").config.vocab
    (tmp_path/f"tok{vocab}.bin").write_bytes(tokenizer_bin())
    checkpoint = load_checkpoint(tmp_path/"m.bin")
    assert load_tokenizer(checkpoint.tokenizer).largest == vocab - 1
    (tmp_path/"tokenizer.bin").write_bytes(b"of 32,000 tokens")
    assert load_checkpoint(tmp_path/"m.bin").tokenizer == checkpoint.tokenizer


def test_gguf_that_does_not_say_how_words_are_cut(tmp_path):
    """llama.cpp's default, and a note."""
    merges     = [("a", "a"), ("1", "1"), ("=", "a")]
    pieces     = [*BYTES[0][:3], "a", "1", "=", "!", "aa", "11", "=a"]
    words      = (pieces, [3]*3 + [1]*7)
    write      = lambda writer: writer.add_token_merges([" ".join(merge) for merge in merges])
    checkpoint = load_checkpoint(gguf_file(tmp_path/"m.gguf", words, "gpt2", write))
    assert "tokenizer.ggml.pre" in checkpoint.notes[0]
    encode     = load_tokenizer(checkpoint.tokenizer).encode
    # Signs, letters and digits are words of their own; digits are cut by threes.
    assert [pieces[i] for i in encode("aa=a!11111")] == ["aa", "=", "a", "!", "11", "1", "11"]
    stated     = load_checkpoint(gguf_file(tmp_path/"n.gguf", words, "gpt2", write, "gpt-2"))
    assert stated.notes == [] and [pieces[i] for i in load_tokenizer(stated.tokenizer).encode("11111")] == ["11", "11", "1"]


def test_words_that_are_tokens_are_whole(tmp_path):
    """Llama 3's vocabulary takes a word that is a token, though no merges lead to it; others follow the merges."""
    pieces = [*BYTES[0][:3], "a", "b", "c", "ab", "abc"]
    write  = lambda writer: writer.add_token_merges(["a b"])
    for pre, expected in (("llama-bpe", ["abc"]), ("qwen2", ["ab", "c"])):
        checkpoint = load_checkpoint(gguf_file(tmp_path/f"{pre}.gguf", (pieces, [3]*3 + [1]*5), "gpt2", write, pre))
        assert [pieces[i] for i in load_tokenizer(checkpoint.tokenizer).encode("abc")] == expected

# Configurations -----------------------------------------------------------------------------------


def test_model_type_where_no_class_is_named(tmp_path):
    golden = Golden("falcon_e", tmp_path)
    config = json.loads((golden.path/"config.json").read_text())
    expected = ReferenceModel(load_checkpoint(golden.path)).logits(golden.tokens)
    (golden.path/"config.json").write_text(json.dumps({key: value for key, value in config.items() if key != "architectures"}))
    np.testing.assert_array_equal(ReferenceModel(load_checkpoint(golden.path)).logits(golden.tokens), expected)


def test_texts_begin_without_a_mark(tmp_path):
    """A mark of the byte order at a file's start is no text."""
    (tmp_path/"text.txt").write_bytes(b"\xef\xbb\xbfOnce")
    assert read_records(tmp_path/"text.txt") == ["Once"]
    assert tokenizer(320).encode("Once").ids == load_tokenizer(tokenizer(320).to_str().encode()).encode(read_records(tmp_path/"text.txt")[0])


def test_all_files_that_are_read_count(tmp_path):
    """The packer writes over none of them, and packs anew where one has changed."""
    parts = split(Golden("gguf_float", tmp_path).path, 3)
    (parts[0].parent/"m-00001-of-00002.gguf").write_bytes(b"")
    assert files_of(parts[2]) == parts
    (tmp_path/"m.bin").write_bytes(llama2c())
    for name in ("tok60.bin", "tokenizer.bin", "m.tokenizer.bin", "other.bin", "tokenizer.json"):
        (tmp_path/name).write_bytes(b"")
    assert [file.name for file in files_of(tmp_path/"m.bin")] == ["m.bin", "m.tokenizer.bin", "tok60.bin", "tokenizer.bin", "tokenizer.json"]
    assert files_of(tmp_path/"nowhere"/"m-00001-of-00002.gguf") == []
    with pytest.raises(ValueError, match="is read as .*m-00002-of-00003.gguf, so the image must go to another file"):
        pack(parts[0], parts[1])
