#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Tokens around texts: what begins one and what ends an answer, as transformers and llama.cpp take them from a checkpoint."""

import json

import gguf
import numpy as np
import pytest

from hypothesis import given, settings, strategies as st
from jinja2 import Environment
from tokenizers import AddedToken, Tokenizer, processors

from litetern.host.chat import chat_template, converse
from litetern.host.conversation import Conversation, Vocabulary
from litetern.host.pack import pack
from litetern.host.templates import ChatTemplate
from litetern.model.formats.image import read_image
from litetern.model.formats.marks import ENDS_MAX
from litetern.model.importers import load_checkpoint
from litetern.model.importers.vocabulary import ENDS
from litetern.model.numerics.sampling import SamplingSettings
from litetern.model.resident.micro import micro_source
from litetern.model.resident.source import to_checkpoint
from litetern.model.tokenizer.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, load_tokenizer

from exact_device import ExactDevice
from tiny_checkpoint import tokenizer, write_checkpoint

ADDED   = ("<|im_start|>", "<|im_end|>", "<|eom_id|>", "<|eot_id|>")  # Tokens 300 … 303.
CHATML  = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
STARTED = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}<|eot_id|>{% endfor %}"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with its tokenizer of 304 tokens."""
    folder = write_checkpoint(tmp_path_factory.mktemp("marks")/"m", vocab_size=304)
    words  = tokenizer(300)
    words.add_special_tokens([AddedToken(text, special=True) for text in ADDED])
    assert words.get_vocab_size() == 304
    words.save(str(folder/"tokenizer.json"))
    return folder


@pytest.fixture
def folder(base, tmp_path):
    """write(config=…, generation=…, tokenizer=…, before=…) → path: the folder with keys of its files replaced; None removes one.

    before: token that tokenizer.json itself puts before a text.
    """
    def write(config={}, generation=None, tokenizer=None, before=None, name="m"):
        path = tmp_path/name
        path.mkdir()
        stated = json.loads((base/"config.json").read_text()) | config
        (path/"config.json").write_text(json.dumps(stated))
        (path/"model.safetensors").symlink_to(base/"model.safetensors")
        words = Tokenizer.from_file(str(base/"tokenizer.json"))
        if before is not None:
            words.post_processor = processors.TemplateProcessing(single=f"{before} $A", special_tokens=[(before, words.token_to_id(before))])
        words.save(str(path/"tokenizer.json"))
        for file, content in (("generation_config.json", generation), ("tokenizer_config.json", tokenizer)):
            if content is not None:
                (path/file).write_text(json.dumps(content))
        return path
    return write

# Ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config, generation, words, ends", [
    ({"eos_token_id": [0, 302, 303]}, None,                           None,                              (0, 302, 303)),
    ({"eos_token_id": 0},             {"eos_token_id": [302, 303]},   None,                              (302, 303)),
    ({"eos_token_id": [5, 6]},        {"eos_token_id": 7},            None,                              (7,)),
    ({"eos_token_id": [5, 6]},        {"temperature": 0.6},           None,                              (5, 6)),
    ({"eos_token_id": [0, 302, 303]}, None,                           {"eos_token": "<|eot_id|>"},       (303, 0, 302)),
    ({"eos_token_id": 0},             None,                           {"eos_token": "<|eot_id|>"},       (0,)),
    ({"eos_token_id": None},          None,                           {"eos_token": {"content": "<|eot_id|>"}}, (303,)),
    ({"eos_token_id": None},          None,                           None,                              ()),
    ({"eos_token_id": 0},             None,                           {"eos_token": "<|eot_id|>", "chat_template": STARTED}, (303, 0)),
    ({"eos_token_id": 0},             None,                           {"chat_template": CHATML},         (0, 301)),
    ({"eos_token_id": [9, 9, 301]},   None,                           {"chat_template": CHATML},         (9, 301)),
])
def test_ends_of_a_folder(folder, tmp_path, config, generation, words, ends):
    """generation_config.json comes before config.json; a template's end of turn ends, too; what templates call eos_token stands first."""
    checkpoint = load_checkpoint(folder(config, generation, words))
    assert checkpoint.ends == ends
    pack(tmp_path/"m", tmp_path/"m.tern")
    assert read_image(tmp_path/"m.tern").ends == ends


@pytest.mark.parametrize("config, generation, line", [
    ({}, {"eos_token_id": [0, 304]},               "generation_config.json: eos_token_id [0, 304]: must be a whole number between 0 and 303"),
    ({}, {"eos_token_id": "x"},                    "generation_config.json: eos_token_id \"x\": must be a whole number"),
    ({"eos_token_id": 304}, {"eos_token_id": 1},   "config.json: eos_token_id 304: must be"),
    ({"eos_token_id": list(range(ENDS_MAX + 1))}, None, "9 tokens end an answer: an image holds 8"),
])
def test_bad_ends(folder, config, generation, line):
    with pytest.raises(ValueError) as error:
        load_checkpoint(folder(config, generation))
    assert line in str(error.value) and "\n" not in str(error.value)


def test_any_end_ends_an_answer(folder, tmp_path):
    """Each of the listed tokens, on what stands in for the board; other tokens go on."""
    pack(folder({"eos_token_id": [0, 302, 303]}), tmp_path/"m.tern")
    model = read_image(tmp_path/"m.tern")
    for end in (0, 302, 303):
        device = ExactDevice(tmp_path/"m.tern")
        device.scripted = [40, 301, end, 41]
        talk   = Conversation(device, Vocabulary(model.tokenizer), model.bos)
        events = [event for event, _ in talk.answer(talk.encode("a"), SamplingSettings(), 4) if event.kind == "token"]
        assert [event.token for event in events] == [40, 301, end] and events[-1].end == "eos" and talk.over


def test_ends_of_the_resident_path():
    source      = micro_source(positions="rope", norm="rms", gated=True, sub_norms=False, head_dim=8)
    source.ends = (1, 2)
    assert to_checkpoint(source).ends == (1, 2)

# Beginnings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("config, words, before, bos, add", [
    ({"bos_token_id": 0},    None,                                                              None,         0,    True),
    ({"bos_token_id": None}, None,                                                              None,         None, False),
    ({"bos_token_id": 0},    {"bos_token": None},                                               None,         None, False),  # As Qwen2's.
    ({"bos_token_id": 300},  {"bos_token": "<|im_start|>", "tokenizer_class": "GPT2Tokenizer"}, None,         300,  False),  # As SmolLM2's.
    ({"bos_token_id": 0},    {"tokenizer_class": "PreTrainedTokenizerFast"},                    "<|im_start|>", 300, True),  # As Llama 3's.
    ({"bos_token_id": 0},    {"tokenizer_class": "LlamaTokenizerFast"},                         None,         0,    True),
    ({"bos_token_id": 0},    {"add_bos_token": True, "tokenizer_class": "GPT2Tokenizer"},       None,         0,    True),
    ({"bos_token_id": 0},    {"add_bos_token": False, "tokenizer_class": "LlamaTokenizer"},     None,         0,    False),
    ({"bos_token_id": 0},    {"add_bos_token": False},                                          "<|im_start|>", 0,  False),
    ({"bos_token_id": 5},    {"bos_token": "<|im_start|>", "add_bos_token": True},              None,         300,  True),
])
def test_beginning_of_a_folder(folder, tmp_path, config, words, before, bos, add):
    checkpoint = load_checkpoint(folder(config, None, words, before))
    assert (checkpoint.bos, checkpoint.add_bos, checkpoint.before) == (bos, add, [bos] if add else [])
    pack(tmp_path/"m", tmp_path/"m.tern")
    model = read_image(tmp_path/"m.tern")
    assert (model.bos, model.add_bos) == (bos, add)
    talk = Conversation(ExactDevice(tmp_path/"m.tern"), Vocabulary(model.tokenizer), *(model.before or [None]))
    assert talk.encode("Once") == [*model.before, *load_tokenizer(model.tokenizer).encode("Once")]
    if not add:
        with pytest.raises(ValueError, match="the text is empty, and no token begins"):
            talk.encode("")


@pytest.mark.parametrize("words, line", [
    ({"add_bos_token": "yes"},                     "add_bos_token \"yes\": must be true or false"),
    ({"add_bos_token": True, "bos_token": None},   "add_bos_token is true, but there is no token that begins a text"),
    ({"bos_token": 7},                             "bos_token 7: must be text"),
])
def test_bad_beginnings(folder, words, line):
    with pytest.raises(ValueError) as error:
        load_checkpoint(folder({}, None, words))
    assert line in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("before", [None, "<|im_start|>"])
def test_prompts_are_the_library_s(folder, before):
    """A text's tokens are those that the library gives with its own post-processor."""
    path       = folder({"bos_token_id": 300}, None, {"bos_token": "<|im_start|>", "tokenizer_class": "PreTrainedTokenizerFast"}, before)
    checkpoint = load_checkpoint(path)
    library    = Tokenizer.from_file(str(path/"tokenizer.json"))
    ours       = load_tokenizer(checkpoint.tokenizer)

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(st.text(st.characters(blacklist_categories=("Cs",)), max_size=40).filter(lambda text: "<|" not in text))
    def agree(text):
        assert [*checkpoint.before, *ours.encode(text)] == library.encode(text).ids
    agree()


def test_template_without_a_beginning(folder):
    """Where nothing is put before a text, what the template writes stays; bos_token and eos_token of none are empty."""
    words      = {"tokenizer_class": "GPT2Tokenizer", "chat_template": CHATML}
    checkpoint = load_checkpoint(folder({"bos_token_id": 300, "eos_token_id": None}, None, words))
    chat       = ChatTemplate(checkpoint.chat_template, load_tokenizer(checkpoint.tokenizer), checkpoint.bos, None, checkpoint.add_bos)
    tokens     = chat.encode([{"role": "user", "content": "a"}])
    assert tokens[0] == 300 and tokens.count(300) == 2
    none       = ChatTemplate("{{ bos_token }}{{ eos_token }}a", load_tokenizer(checkpoint.tokenizer), None, None, False)
    assert none.encode([{"role": "user", "content": "a"}]) == none.tokenizer.encode("a")

@pytest.mark.parametrize("template", [CHATML, STARTED])
@pytest.mark.parametrize("add", [True, False])
def test_prompts_of_a_template_are_the_library_s(folder, tmp_path, template, add):
    """As transformers' apply_chat_template: the template alone says what begins a prompt, whatever begins other texts."""
    words = {"bos_token": "<|endoftext|>", "add_bos_token": add, "eos_token": "<|eot_id|>", "chat_template": template}
    pack(folder({"bos_token_id": 0}, None, words), tmp_path/"m.tern")
    model   = read_image(tmp_path/"m.tern")
    talk    = converse(ExactDevice(tmp_path/"m.tern"), Vocabulary(model.tokenizer), model, chat_template(Vocabulary(model.tokenizer), model, ""), "", False)
    text    = Environment(trim_blocks=True, lstrip_blocks=True).from_string(template).render(messages=[{"role": "user", "content": "Once"}],
        bos_token="<|endoftext|>", eos_token="<|eot_id|>")
    library = Tokenizer.from_file(str(tmp_path/"m"/"tokenizer.json"))
    assert talk.encode("Once") == library.encode(text, add_special_tokens=False).ids


# GGUF ---------------------------------------------------------------------------------------------

SPM   = (["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "<|im_end|>"],
    [UNKNOWN, CONTROL, CONTROL, *[BYTE]*256, NORMAL, CONTROL])
BYTES = (["<|endoftext|>", "<|im_end|>", "<|eot_id|>", "a", "b"], [CONTROL, CONTROL, CONTROL, NORMAL, NORMAL])


def gguf_file(path, vocabulary, kind, write=lambda writer: None, pre=None):
    """A GGUF of one block with a vocabulary (pieces, kinds)."""
    pieces, kinds = vocabulary
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in ((writer.add_context_length, 16), (writer.add_embedding_length, 8), (writer.add_block_count, 1),
            (writer.add_feed_forward_length, 8), (writer.add_head_count, 1), (writer.add_layer_norm_rms_eps, 1e-5)):
        add(value)
    writer.add_tokenizer_model(kind)
    writer.add_token_list(pieces)
    writer.add_token_types(kinds)
    if kind == "llama":
        writer.add_token_scores([0.0]*len(pieces))
    else:
        writer.add_token_merges([])
    if pre:
        writer.add_tokenizer_pre(pre)
    write(writer)
    rng = np.random.default_rng(0)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", rng.normal(size=(8, 8)).astype(np.float32))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(8, np.float32))
    writer.add_tensor("token_embd.weight", rng.normal(size=(len(pieces), 8)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def states(**values):
    """Writes ids and flags: states(eos=2) is add_eos_token_id(2)."""
    def write(writer):
        for name, value in values.items():
            writer.add_add_bos_token(value) if name == "add_bos" else getattr(writer, f"add_{name}_token_id")(value)
    return write


@pytest.mark.parametrize("vocabulary, kind, pre, stated, expected", [
    (SPM,   "llama", None,        {},                               (1, True, (2, 260))),
    (SPM,   "llama", None,        {"bos": 1, "eos": 2, "add_bos": False}, (1, False, (2, 260))),
    (SPM,   "llama", None,        {"eos": 2, "eot": 260, "eom": 259}, (1, True, (2, 260, 259))),
    (BYTES, "gpt2",  "gpt-2",     {"bos": 0, "eos": 0},             (0, False, (0, 1, 2))),
    (BYTES, "gpt2",  "llama-bpe", {"bos": 0, "eos": 2},             (0, True, (2, 1, 0))),
    (BYTES, "gpt2",  "llama-bpe", {"bos": 0, "eos": 2, "add_bos": False}, (0, False, (2, 1, 0))),
    (BYTES, "gpt2",  "qwen2",     {"eos": 1},                       (None, False, (1, 2, 0))),
    (BYTES, "gpt2",  "qwen2",     {"bos": 0, "eos": 1, "add_bos": True}, (0, True, (1, 2, 0))),
])
def test_marks_of_a_gguf(tmp_path, vocabulary, kind, pre, stated, expected):
    """Stated ids first, then the tokens that llama.cpp knows by their names; what begins a text is the kind's own where nothing is said."""
    checkpoint = load_checkpoint(gguf_file(tmp_path/"m.gguf", vocabulary, kind, states(**stated), pre))
    assert (checkpoint.bos, checkpoint.add_bos, checkpoint.ends) == expected


def test_more_names_than_room(tmp_path):
    """Ids that a file states stay, tokens that are known by their names fill what is left."""
    pieces     = [*ENDS, "a"]
    checkpoint = load_checkpoint(gguf_file(tmp_path/"m.gguf", (pieces, [CONTROL]*len(ENDS) + [NORMAL]), "gpt2", states(eos=len(ENDS) - 1), "gpt-2"))
    assert checkpoint.ends == (len(ENDS) - 1, *range(ENDS_MAX - 1))


@pytest.mark.parametrize("template, add, expected", [
    ("{{ messages[0].content }}",                True,  "{{ bos_token }}{{ messages[0].content }}"),
    ("{{ messages[0].content }}",                False, "{{ messages[0].content }}"),
    ("{{ bos_token }}{{ messages[0].content }}", True,  "{{ bos_token }}{{ messages[0].content }}"),
    ("<|endoftext|>{{ messages[0].content }}",   True,  "<|endoftext|>{{ messages[0].content }}"),
    ("",                                         True,  ""),
])
def test_template_of_a_gguf(tmp_path, template, add, expected):
    """llama.cpp puts bos before a prompt as before any text, once."""
    def write(writer):
        states(bos=0, add_bos=add)(writer)
        writer.add_chat_template(template)
    assert load_checkpoint(gguf_file(tmp_path/"m.gguf", BYTES, "gpt2", write, "gpt-2")).chat_template == expected


@pytest.mark.parametrize("stated, line", [
    ({"eot": 5},                      "tokenizer.ggml.eot_token_id 5: must be a whole number between 0 and 4"),
    ({"eom": 2**32 - 1},              "tokenizer.ggml.eom_token_id 4294967295: must be"),
    ({"eos": 5},                      "tokenizer.ggml.eos_token_id 5: must be"),
    ({"add_bos": True},               "add_bos_token is true, but there is no token that begins a text"),
])
def test_bad_marks_of_a_gguf(tmp_path, stated, line):
    with pytest.raises(ValueError) as error:
        load_checkpoint(gguf_file(tmp_path/"m.gguf", BYTES, "gpt2", states(**stated), "gpt-2"))
    assert line in str(error.value) and "\n" not in str(error.value)
