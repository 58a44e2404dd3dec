"""`hyperion generate` and `hyperion chat` on a folder with a tokenizer and a chat template say what transformers says, greedily."""
import subprocess
import unittest

import models
import tokenizers
import torch
import transformers

TEMPLATE = """{%- if messages[0]['role'] == 'system' -%}
<|im_start|>system
{{ messages[0]['content'] }}<|im_end|>
{% endif %}
{%- for message in messages %}
    {%- if message.role != 'system' %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
WORDS = "the sky is blue and the grass is green, naïve café ☕ 日本語 words come again and again: 1 2 3".split()


def make_folder(scratch):
    """A random Qwen2 whose tokens are pieces of the words above."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=320, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                                             special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    inner.train_from_iterator([" ".join(WORDS)] * 9, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(scratch)
    config = models.qwen2(vocab_size=336, max_position_embeddings=400, initializer_range=0.4, eos_token_id=tokenizer.eos_token_id)
    model = models.make(config, 6)
    model.save_pretrained(scratch)
    return model, tokenizer


def continued(model, ids):
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=60, do_sample=False, pad_token_id=0)
    return out[0, ids.shape[1]:]


class Text(unittest.TestCase):
    def test_generate_and_chat_through_the_tokenizer(self):
        scratch = models.Folder()
        model, tokenizer = make_folder(scratch.path)
        for prompt in ["the sky", "naïve café ☕ 日本", "1 2 3 <|im_start|>user"]:
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            expected = tokenizer.decode(continued(model, ids), skip_special_tokens=True).encode()
            out = models.run("generate", scratch.path, "--prompt", prompt, "--tokens", 60, "--device", "cpu")
            self.assertEqual(out.decode(errors="replace"), prompt + expected.decode() + "\n")

        messages, said = [{"role": "system", "content": "be brief"}], ["the grass is", "  blue and green "]
        out = models.run("chat", scratch.path, "--system", "be brief", "--tokens", 60, "--device", "cpu", stdin="\n".join(said).encode())
        expected = ""
        for line in said:
            messages.append({"role": "user", "content": line})
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True).input_ids
            answer = tokenizer.decode(continued(model, ids), skip_special_tokens=True)
            messages.append({"role": "assistant", "content": answer})
            expected += answer + "\n"
        self.assertEqual(out.decode(errors="replace"), expected)


if __name__ == "__main__":
    unittest.main()
