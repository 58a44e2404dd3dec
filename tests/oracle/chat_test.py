"""Chat templates render as transformers renders them. Usage: chat_test.py [FOLDER of *.jinja of real models]"""
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import tokenizers
import transformers
from transformers.utils import chat_template_utils

CHATML = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (loop.first and message.role == "system") %}
        {{- '<|im_start|>' + message.role + '\\n' + (message.content | trim) + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
HEADERS = """{{- bos_token }}
{%- if date_string is not defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif %}
{%- set ns = namespace(turns=0, system="") %}
{%- if messages[0].role == 'system' %}{% set ns.system = messages[0]['content'] | trim %}{% set messages = messages[1:] %}{% endif %}
<|head|>system<|tail|>

Today: {{ date_string }}
{{ ns.system }}<|eot|>
{% for message in messages -%}
  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
  {% set ns.turns = ns.turns + 1 %}
  {{- '<|head|>' ~ message['role'] ~ '<|tail|>\\n\\n' ~ message['content'] ~ ('' if loop.last else '<|eot|>') }}
{% endfor %}
{{ ns.turns }} of {{ messages | length }}{# done #}
{% if add_generation_prompt %}<|head|>assistant<|tail|>

{% endif %}
"""
TOOLS = """{% macro shown(tool, deep=false) %}[{{ tool.name | upper }}{% if deep %}:{{ tool | tojson(indent=2) }}{% endif %}]{% endmacro %}
{% if tools %}
# Tools
{% for tool in tools if tool.function is mapping %}
{{ shown(tool.function) }} {{ shown(tool.function, deep=true) }} {{ tool | tojson }}
{% else %}
none
{% endfor %}
{% for key, value in tools[0].function.parameters.items() %}{{ loop.index }}. {{ key }}={{ value }}{{ ", " if not loop.last }}{% endfor %}
{% endif %}
{% for m in messages %}
{% if m.tool_calls is defined and m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}
{% elif m.content is string %}{{ m.content.strip().split(' ')[-1] }} {{ m.content[::-1] }} {{ m.content[1:3] }}
{% else %}{{ m.content }}
{% endif %}
{% endfor %}"""
SMALL = [
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ -7 // 2 }} {{ 7 / 2 }} {{ 1.0 }} {{ 1e3 if false else 2.50 }} {{ 6 / 2 }}",
    "{{ [1, 'a', none, true, 2.5, {'k': \"it's\"}] }} {{ 'x' ~ 1 ~ none ~ nothing }}|{{ nothing }}|",
    "{{ 'a' in 'cat' }} {{ 'z' not in ['a'] }} {{ 'role' in messages[0] }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ not 1 == 2 }}",
    "{{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
    "{{ (messages | first).role }} {{ (messages | last).role }} {{ messages[-1].role }} {{ messages[99] is defined }} {{ messages[:-1] | length }}",
    "{{ 'a-b-c'.split('-', 1) }} {{ ' a  b '.split() }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'aXbX' | replace('X', '\\n') }}",
    "{{ {'b': 1, 'a': [1, {}], 'é': '\"<&>\\u00e9'} | tojson }} {{ {'a': [], 'b': {'c': [1, 2]}} | tojson(indent=4) }}",
    "{{ nothing | default('d') }} {{ '' | default('e', true) }} {{ none is none }} {{ tools is none }} {{ nothing is undefined }} {{ '' is string }}",
    "{{ messages[0].get('x', 'y') }} {{ messages[0].get('x') }} {{ messages[0]['none such'] is defined }} {{ 'ÀÉ x'.lower() }} {{ 'héllo' | length }}",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.revindex }} {% endfor %}",
    "{% for x in [] %}a{% else %}empty{% endfor %}{% set x = 1 %}{% for i in range(3) %}{% set x = i %}{% endfor %}{{ x }}",
    "  {% if true %}  \n  a\n  {% endif %}  \n b {%+ if true %} c{% endif %}\n\n{#- gone -#}\n d\n\n",
    "a\r\nb {{- ' c ' -}} d\r\n  {{ 'e' }}\n{% set t %} in {{ 1 }}{% endset %}[{{ t }}]{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{{ 'a' if nothing }}|{{ 'x' if 0 else 'y' if 0 else 'z' }}|{{ {'a': {'b': 1}}.a.b }}|{{ \"q'\\t\\\\ \\d\" }}|{{ ('p' 'q') }}",
    "{% generation %}said{% endgeneration %}{{ 'x' | string | upper }}{{ '  t ' | trim }}{{ \"\u3000u\u3000\" | trim }}.{{ 3 is odd }}{{ true is true }}",
    "{{ messages[0].role.nothing }}|{{ messages[0] is iterable }}{{ 5 is number }}{{ 'abc'[1] }}{{ 'abc'[-1:] }}{{ '%' }}{{ \"%}\" }}",
    "{% if messages | selectattr('role', 'equalto', 'x') %}lazy{% endif %}{{ {'a': 1} | tojson | safe }}{{ none | map(attribute='x') | list }}",
    "{% macro f(x) %}{{ x }}{{ y }}{% endmacro %}{% set y = 1 %}{% for z in [5] %}{{ f(z) }}{{ f() }}{% endfor %}{{ f is defined }}{{ f(x=3) }}",
    "{{ 1e16 }} {{ 123456789.125 }} {{ 0.00001 }} {{ 1.5e-7 }} {{ 0.1 + 0.2 }} {{ [0.0001, 1e22] | tojson }} {{ true + 1 }} {{ 1 == true }} {{ 1 == 1.0 }}",
    "{{ 'a' ~ 'b' + 'c' }} {{ 2 + 3 ~ 4 }} {{ 'x' is string and 'y' is not none }} {{ not nothing is defined }} {{ 'a' + 'b' | upper }}",
    "{{ nothing.part }}", "{{ 'a' + 1 }}", "{{ raise_exception('no') }}", "{{ 'x' | none_such }}", "{% if %}{% endif %}", "{% for x in 5 %}{% endfor %}",
    "{% if true %}", "{{ 'open }}", "{{ (1 }}", "{% endif %}", "{% set messages.x = 1 %}", "{{ nothing() }}", "{{ [1][0:1:0] }}", "{{ 1 // 0 }}",
]
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tell \"it\" <now> é", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "enum": ["a", "b"]}, "days": {"type": "integer", "default": 1.5}},
    "required": ["place"]}}}
PLAIN = [{"role": "user", "content": "Hello there "}, {"role": "assistant", "content": "\n Hi, 日本! "}, {"role": "user", "content": "1 < 2 & 'q'\n"}]
SYSTEM = [{"role": "system", "content": " Be kind.\n"}]
CALLS = [{"role": "user", "content": "Weather?"},
         {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "id": "abcdefghi", "function": {"name": "weather", "arguments": {"place": "a", "days": 2}}}]},
         {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": "sunny"}]
CHATS = [{"messages": PLAIN}, {"messages": SYSTEM + PLAIN}, {"messages": PLAIN[:1]}, {"messages": PLAIN[:2]}, {"messages": SYSTEM + PLAIN[1:]},
         {"messages": PLAIN, "tools": [TOOL]}, {"messages": SYSTEM + PLAIN[:1], "tools": [TOOL, TOOL]}, {"messages": CALLS, "tools": [TOOL]},
         {"messages": SYSTEM + CALLS, "tools": [TOOL]}, {"messages": SYSTEM}]


class FixedDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 3, 9, 12, 30)


def theirs(template, variables):
    try:
        rest = {key: value for key, value in variables.items() if key != "messages"}
        out = chat_template_utils.render_jinja_template([variables["messages"]], chat_template=template, **rest)
        return out[0][0] if isinstance(out, tuple) else out[0]
    except Exception as error:
        return error


# What the assistant says, marked as transformers wants it for a mask. It begins and ends with what every tokenizer keeps: where it does not,
# transformers finds no token there, and learns all the rest of the dialogue or nothing more.
MARKED = """{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == "assistant" %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}{{ message.content }}<|im_end|>{% endgeneration %}
        {{- '\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""


def trained_tokenizers():
    """Small ones of the kinds that cut text and count characters otherwise: bytes, SentencePiece's, BERT's."""
    corpus = [message["content"] for message in DIALOGUE] * 3
    special = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    gpt = tokenizers.Tokenizer(tokenizers.models.BPE())
    gpt.pre_tokenizer, gpt.normalizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.normalizers.NFC()
    gpt.train_from_iterator(corpus, tokenizers.trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=special,
                                                                   initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    llama = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True))
    llama.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")])
    llama.train_from_iterator(corpus, tokenizers.trainers.BpeTrainer(vocab_size=200, show_progress=False, special_tokens=special, max_token_length=6))
    bert = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="<unk>"))
    bert.normalizer, bert.pre_tokenizer = tokenizers.normalizers.BertNormalizer(), tokenizers.pre_tokenizers.BertPreTokenizer()
    bert.train_from_iterator(corpus, tokenizers.trainers.WordPieceTrainer(vocab_size=200, show_progress=False, special_tokens=special))
    return {"bytes": gpt, "sentencepiece": llama, "bert": bert}


DIALOGUE = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Say  hello to café and naïve 日本語, 12345!"},
            {"role": "assistant", "content": "Hello café, hello naïve 👋🏽.\n\nAnd 日本語: こんにちは"}, {"role": "user", "content": "élève?"},
            {"role": "assistant", "content": "élève "}, {"role": "user", "content": "Thanks"}, {"role": "assistant", "content": "e\u0301"}]


def compare_masks(now, unmarked):
    """Ids and masks of dialogues, against apply_chat_template(return_assistant_tokens_mask=True); and in templates without marks the answers, not
    the questions."""
    bad = learned = 0
    with tempfile.TemporaryDirectory() as folder:
        made = trained_tokenizers()["bytes"]
        made.decoder = tokenizers.decoders.ByteLevel()
        made.save(f"{folder}/any.json")
        chat = [{"role": role, "content": text} for role, text in (("user", "How so?"), ("assistant", "Thus."), ("user", "Why?"), ("assistant", "Hence!"))]
        variables = {"messages": chat, "bos_token": "<s>", "eos_token": "</s>"}
        asked = [{"template": text, "variables": variables, "now": now, "tokenizer": f"{folder}/any.json"} for text in unmarked.values()]
        for name, ours in zip(unmarked, renders(asked), strict=True):
            if "error" in ours:
                print(f"no mask by {name}: {ours['error']}")
                continue
            said = made.decode([id for id, kept in zip(ours["ids"], ours["learned"]) if kept], skip_special_tokens=False)
            if "Thus." not in said or "Hence!" not in said or "Why" in said or "How" in said or "user" in said:
                bad += 1
                print(f"{name}: learned {said!r}")
        for name, made in trained_tokenizers().items():
            path = f"{folder}/{name}.json"
            made.save(path)
            theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
            for size in range(1, len(DIALOGUE) + 1):
                real = theirs.apply_chat_template(DIALOGUE[:size], chat_template=MARKED, return_assistant_tokens_mask=True, return_dict=True)
                variables = {"messages": DIALOGUE[:size], "bos_token": "<s>", "eos_token": "</s>"}
                ours = renders([{"template": MARKED, "variables": variables, "now": now, "tokenizer": path}])[0]
                learned += sum(ours.get("learned", []))
                if ours.get("ids") != real["input_ids"] or ours.get("learned") != real["assistant_masks"]:
                    bad += 1
                    print(f"{name}, {size} messages:\n  theirs: {real}\n  ours:   {ours}")
    print(f"masks: {learned} tokens learned, {bad} dialogues differ")
    return bad + (learned == 0)


def renders(asked):
    program = subprocess.run([os.environ["HYPERION_CHAT_RENDERS"]], input="\n".join(map(json.dumps, asked)), text=True, capture_output=True, check=True)
    return [json.loads(line) for line in program.stdout.splitlines()]


def main():
    warnings.simplefilter("ignore")
    os.environ["TZ"] = "UTC"
    time.tzset()
    chat_template_utils.datetime = FixedDatetime
    now = int(FixedDatetime.now().timestamp())
    templates = {"chatml": CHATML, "headers": HEADERS, "tools": TOOLS} | {f"small {i}": text for i, text in enumerate(SMALL)}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")) if len(sys.argv) > 1 else []:
        if path.name.startswith("llama-cpp"):  # not a model's: it writes a generator as JSON, which transformers refuses
            continue
        templates[path.name] = path.read_text()
    asked = [(name, {"template": text, "now": now, "variables": chat | {"add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}})
             for name, text in templates.items() for chat in CHATS for prompt in (False, True)]
    bad, texts, errors, known = {}, 0, 0, 0
    for (name, case), ours in zip(asked, renders([each for _, each in asked]), strict=True):
        real = theirs(case["template"], case["variables"])
        refused = isinstance(real, Exception)
        texts, errors = texts + (not refused), errors + refused
        if "filter safe" in ours.get("error", ""):  # refused on purpose: sums with it escape HTML
            known += 1
        elif ("error" in ours) != refused or (not refused and ours["text"] != real):
            bad[name] = bad.get(name, 0) + 1
            if bad[name] == 1:
                print(f"{name}: {json.dumps(case['variables'])[:300]}\n  theirs: {real!r}\n  ours:   {ours!r}")
    print(f"{len(templates)} templates: {texts} texts, {errors} refusals, {known} refused on purpose, {sum(bad.values())} differ")
    real = {name: text for name, text in templates.items() if name.endswith(".jinja") or name == "chatml"}
    return bool(compare_masks(now, real)) or bool(bad)


sys.exit(main())
