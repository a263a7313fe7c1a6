#!/usr/bin/env python3
"""Writes a llama model of half a megabyte with random weights: it says nothing sensible, but a real server loads it.

Its vocabulary is the 256 bytes and a few words; the words are made likelier, so that what it says is mostly text.
"""

import sys

import gguf
import numpy as np

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 4096
WORDS = (
    "a gate stands by the river and a keeper sits there all day long asking who comes from where with what for whom "
    "some pass at once others wait until night then go home again saying it was only one more day among many"
)


def main(path):
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    size = vocabulary(writer)

    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    # Without it, a text has a vector for each of its tokens.
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_chat_template(
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"
    )

    def random_tensor(name, *shape):
        tensor = (random.standard_normal(shape) * 0.4).astype(np.float32)
        writer.add_tensor(name, tensor)
        return tensor

    def ones(name):
        writer.add_tensor(name, np.ones(WIDTH, np.float32))

    random_tensor("token_embd.weight", size, WIDTH)
    output = (random.standard_normal((size, WIDTH)) * 0.4).astype(np.float32)
    output[: size - len(set(WORDS.split()))] *= 0.01
    writer.add_tensor("output.weight", output)
    ones("output_norm.weight")
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        ones(f"{block}.attn_norm.weight")
        ones(f"{block}.ffn_norm.weight")
        for part in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            random_tensor(f"{block}.{part}.weight", WIDTH, WIDTH)
        random_tensor(f"{block}.ffn_gate.weight", INNER, WIDTH)
        random_tensor(f"{block}.ffn_up.weight", INNER, WIDTH)
        random_tensor(f"{block}.ffn_down.weight", WIDTH, INNER)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocabulary(writer):
    """Writes the tokens; returns how many there are."""
    kinds = gguf.TokenType
    tokens = [(b"<unk>", kinds.UNKNOWN), (b"<s>", kinds.CONTROL), (b"</s>", kinds.CONTROL)]
    tokens += [(f"<0x{byte:02X}>".encode(), kinds.BYTE) for byte in range(256)]
    # SentencePiece writes the blank before a word as U+2581.
    tokens += [(f"\u2581{word}".encode(), kinds.NORMAL) for word in sorted(set(WORDS.split()))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_token_scores([-float(rank) for rank in range(len(tokens))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_vocab_size(len(tokens))
    return len(tokens)


if __name__ == "__main__":
    main(sys.argv[1])
