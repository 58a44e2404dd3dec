"""`data prepare` makes the same tokens of dialogues with tools as apply_chat_template, and the assistant learns its calls."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import tokenizers
import transformers

# As Qwen2.5's: calls in the turn, answers of tools in a turn of the user, one for all that follow each other.
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}{%- else %}{{- 'Be brief.' }}{%- endif %}
    {{- "\\n\\n# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
# As Hermes': a template apart for dialogues with tools, which tells them, and a turn of its own for their answers.
PLAIN = """{{- bos_token }}{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
HERMES = """{{- bos_token }}{{- '<|im_start|>system\\nYou may call: <tools> ' }}
{%- for tool in tools %}
    {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
    {{- '{"name": "' + tool.name + '", "parameters": ' }}{{- tool.parameters | tojson }}{{- '}' }}{%- if not loop.last %}{{- '\\n' }}{%- endif %}
{%- endfor %}
{{- ' </tools><|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == "user" or message.role == "system" or (message.role == "assistant" and message.tool_calls is not defined) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {{- '\\n<tool_call>\\n' }}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>tool\\n' }}{%- endif %}
        {{- '<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>\\n' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}{{- '<|im_end|>' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
# What the assistant says is marked, and messages are written whole.
MARKED = """{% for message in messages %}{% if message.role == "assistant" %}<|im_start|>{% generation %}{{ message | tojson }}<|im_end|>{% endgeneration %}
{% else %}<|im_start|>{{ message | tojson }}<|im_end|>
{% endif %}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"""

TOOL = {"type": "function", "function": {"name": "weather", "description": "Tell \"it\" <now> é", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "enum": ["a", "b"]}, "days": {"type": "integer", "default": 1.5}}, "required": ["place"]}}}


def call(arguments):
    return {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": arguments}}


ASKED = [{"role": "user", "content": "Weather?"}]
TOLD = [{"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": "sunny \"é\""}, {"role": "assistant", "content": "It is sunny."}]
RECORDS = [{"messages": ASKED + [{"role": "assistant", "content": content, "tool_calls": calls}] + told, **tools}
           for content in (None, "", "Let me look.") for calls in ([call({"place": "a", "days": 2})], [call({"place": "a"}), call({"days": 1.5, "place": "é"})])
           for told in ([], TOLD, TOLD[:1] + TOLD) for tools in ({"tools": [TOOL]}, {"tools": [TOOL, TOOL]})]
RECORDS += [{"messages": ASKED + [{"role": "assistant", "tool_calls": [call("{\"place\": \"a\"}")]}] + TOLD, "tools": [TOOL]},
            {"messages": ASKED + [{"role": "assistant", "content": "I cannot."}], "tools": [TOOL]}]


def made_tokenizer():
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer, made.decoder = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    made.train_from_iterator([json.dumps(RECORDS)], tokenizers.trainers.BpeTrainer(
        vocab_size=400, show_progress=False, special_tokens=["<s>", "</s>", "<|im_start|>", "<|im_end|>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    return made


def documents_of(path):
    """Ids and learned of each document: docs/format_set.md."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[-32:-24])[0]
    footer = json.loads(data[-32 - size:-32])
    width = footer["meta"]["width"]

    def section(name):
        begin, length = footer["sections"][name]
        return data[begin:begin + length]
    ends = [end[0] for end in struct.iter_unpack("<Q", section("index"))]
    ids = [each[0] for each in struct.iter_unpack("<H" if width == 2 else "<I", section("payload"))]
    bits = section("learned")
    learned = [bits[i // 8] >> i % 8 & 1 for i in range(len(ids))]
    return [(ids[begin // width:end // width], learned[begin // width:end // width]) for begin, end in zip([0] + ends, ends)]


def prepare(folder, records, *flags):
    data = folder / "records.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "r.toml").write_text(f"[prepare]\nfiles = [\"{data}\"]\nvalidation_files = [\"{data}\"]\nformat = \"jsonl\"\nmessages = \"messages\"\n"
                                   f"tokenizer = \"{folder}\"\noutput = \"{folder / 'set'}\"\n")
    return subprocess.run([os.environ["HYPERION_PROGRAM"], "data", "prepare", folder / "r.toml", *flags], text=True, capture_output=True)


def compare(name, template, folder):
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=made_tokenizer(), bos_token="<s>", eos_token="</s>")
    theirs.chat_template = template
    theirs.save_pretrained(folder)
    marked = "endgeneration" in str(template)
    # Some write all tools as a text in JSON, as tables of one shape need it.
    records = [record | {"tools": json.dumps(record["tools"])} if i % 2 else record for i, record in enumerate(RECORDS)]
    done = prepare(folder, records)
    if done.returncode != 0:
        print(f"{name}: {done.stderr}")
        return 1
    bad = 0
    for record, (ids, learned) in zip(RECORDS, documents_of(folder / "set" / "train.set"), strict=True):
        real = theirs.apply_chat_template(record["messages"], tools=record["tools"], return_dict=True, return_assistant_tokens_mask=marked)
        said = theirs.decode([id for id, kept in zip(ids, learned) if kept])
        calls = [message for message in record["messages"] if message.get("tool_calls")]
        right = ("weather" in said) == bool(calls) and "Weather?" not in said and "sunny \"" not in said and said.count("<|im_end|>") == sum(
            message["role"] == "assistant" for message in record["messages"])
        if ids != real["input_ids"] or not (learned == real["assistant_masks"] if marked else right):
            bad += 1
            print(f"{name}: {json.dumps(record)}\n  theirs: {theirs.decode(real['input_ids'])!r}\n  ours:   {theirs.decode(ids)!r}\n  learned: {said!r}")
    print(f"{name}: {len(RECORDS)} dialogues, {bad} differ")
    return bad


def refused(template, folder):
    """A template that writes neither: transformers drops them, here it is an error with the record's place."""
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=made_tokenizer(), bos_token="<s>", eos_token="</s>", chat_template=template)
    theirs.save_pretrained(folder)
    with_tools, with_calls = {"messages": ASKED + TOLD[1:], "tools": [TOOL]}, {"messages": RECORDS[-2]["messages"]}
    bad = 0
    for record, told in ((with_tools, 'the record has "tools"'), (with_calls, 'message 2 has "tool_calls"')):
        done = prepare(folder, [{"messages": ASKED + TOLD[1:]}, record])
        if done.returncode == 0 or "records.jsonl:2: " + told not in done.stderr:
            bad += 1
            print(f"not refused: {record}: {done.stderr}")
    return bad


def main():
    bad = 0
    templates = {"qwen": QWEN, "hermes": {"default": PLAIN, "tool_use": HERMES}, "marked": MARKED}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")) if len(sys.argv) > 1 else []:
        if path.name.startswith(("Qwen", "NousResearch")):
            templates[path.name] = path.read_text()
    for name, template in templates.items():
        with tempfile.TemporaryDirectory() as folder:
            bad += compare(name, template, pathlib.Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        bad += refused(PLAIN, pathlib.Path(folder))
    return bad > 0


sys.exit(main())
