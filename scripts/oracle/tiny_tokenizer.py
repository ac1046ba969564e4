"""A small, real tokenizer for the tiny checkpoints: byte-level BPE, trained here on a few sentences.

It covers every byte, so any text can be encoded, and it has what a runtime has to find in a tokenizer:
merges, special tokens, a beginning-of-sequence rule, an end-of-sequence token and a chat template.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ("<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>")
BOS_ID, EOS_ID, IM_START_ID, IM_END_ID = range(len(SPECIAL))
# The models' vocabularies are larger, as real ones are padded: ids from here to there have no token.
TOKENS = 300
CORPUS = (
    "The river ran past the mill and the miller counted the sacks of flour in the evening light.",
    "There was once a clock that told the time backwards, and nobody in the town was ever late.",
    "In the winter of that year the harbour froze, and the ships stood in the ice like trees in a field.",
    "What is the capital of the country? The capital of the country is the city on the river.",
)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def build() -> Tokenizer:
    """Train the tokenizer; the same on every run."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENS,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL[BOS_ID]} $A", pair=f"{SPECIAL[BOS_ID]} $A $B", special_tokens=[(SPECIAL[BOS_ID], BOS_ID)]
    )
    return tokenizer


def write(folder: Path, context_length: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` into a checkpoint folder."""
    build().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[BOS_ID],
        "eos_token": SPECIAL[EOS_ID],
        "pad_token": SPECIAL[EOS_ID],
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
