//! What the converter's tests share: GGUF files made in memory, and small configurations.
#![allow(dead_code, reason = "each test file uses its own part")]
#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

pub(crate) mod room;

use std::path::{Path, PathBuf};

use mlxcel::convert::gguf::BlockType;

/// A metadata value to be written.
#[derive(Clone)]
pub(crate) enum Meta {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
}

/// A GGUF file in the making.
#[derive(Clone, Default)]
pub(crate) struct GgufMaker {
    pub(crate) metadata: Vec<(String, Meta)>,
    /// Name, axes (outermost first), type, data.
    pub(crate) tensors: Vec<(String, Vec<usize>, BlockType, Vec<u8>)>,
}

impl GgufMaker {
    pub(crate) fn set(&mut self, key: &str, value: Meta) -> &mut Self {
        self.metadata.retain(|(known, _)| known != key);
        self.metadata.push((key.to_owned(), value));
        self
    }

    pub(crate) fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        block_type: BlockType,
        data: Vec<u8>,
    ) -> &mut Self {
        self.tensors.retain(|(known, ..)| known != name);
        self.tensors.push((name.to_owned(), shape.to_vec(), block_type, data));
        self
    }

    /// The file's bytes, version 3.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3_u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            text(&mut out, key);
            meta(&mut out, value);
        }
        let mut offset = 0_usize;
        for (name, shape, block_type, data) in &self.tensors {
            text(&mut out, name);
            out.extend(u32::try_from(shape.len()).unwrap().to_le_bytes());
            for &axis in shape.iter().rev() {
                out.extend((axis as u64).to_le_bytes());
            }
            out.extend(block_type.number().to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset = (offset + data.len()).next_multiple_of(32);
        }
        for (.., data) in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(data);
        }
        out
    }

    /// Writes the file into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("model.gguf");
        std::fs::write(&path, self.bytes()).unwrap();
        path
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn meta(out: &mut Vec<u8>, value: &Meta) {
    let array = |out: &mut Vec<u8>, number: u32, count: usize| {
        out.extend(9_u32.to_le_bytes());
        out.extend(number.to_le_bytes());
        out.extend((count as u64).to_le_bytes());
    };
    match value {
        Meta::U32(value) => {
            out.extend(4_u32.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        Meta::F32(value) => {
            out.extend(6_u32.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        Meta::Bool(value) => {
            out.extend(7_u32.to_le_bytes());
            out.push(u8::from(*value));
        }
        Meta::Text(value) => {
            out.extend(8_u32.to_le_bytes());
            text(out, value);
        }
        Meta::Texts(values) => {
            array(out, 8, values.len());
            for value in values {
                text(out, value);
            }
        }
        Meta::I32s(values) => {
            array(out, 5, values.len());
            for value in values {
                out.extend(value.to_le_bytes());
            }
        }
        Meta::F32s(values) => {
            array(out, 6, values.len());
            for value in values {
                out.extend(value.to_le_bytes());
            }
        }
    }
}

/// Bytes of a fixed pseudo-random sequence (a 64-bit linear congruential generator).
pub(crate) fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| step(&mut state)).collect()
}

/// Random blocks of a type with small finite scales, for `elements` elements.
pub(crate) fn blocks(seed: u64, block_type: BlockType, elements: usize) -> Vec<u8> {
    let bytes = block_type.row_bytes(elements).unwrap();
    let mut data = noise(seed, bytes);
    // f16 scales: the high byte decides sign and exponent; 0x24 to 0x2b are 0.016 to 0.12.
    let small = |byte: &mut u8| *byte = 0x24 | (*byte & 0x87);
    for block in data.chunks_exact_mut(block_type.block_bytes()) {
        match block_type {
            BlockType::F32 => {
                let value = f32::from(block[0].cast_signed()) / 64.0;
                block.copy_from_slice(&value.to_le_bytes());
            }
            BlockType::Bf16 => block[1] = 0x3e | (block[1] & 0x80),
            BlockType::F16 | BlockType::Q4_0 | BlockType::Q5_0 | BlockType::Q8_0 => small(&mut block[1]),
            BlockType::Q4_1 | BlockType::Q5_1 | BlockType::Q4K | BlockType::Q5K => {
                small(&mut block[1]);
                small(&mut block[3]);
            }
            BlockType::Q2K => {
                small(&mut block[81]);
                small(&mut block[83]);
            }
            BlockType::Q3K => small(&mut block[109]),
            BlockType::Q6K => small(&mut block[209]),
        }
    }
    data
}

/// Sizes of the small models below.
pub(crate) const HIDDEN: usize = 64;
pub(crate) const WIDE: usize = 96;
pub(crate) const HEADS: usize = 4;
pub(crate) const KV_HEADS: usize = 2;
pub(crate) const HEAD_DIM: usize = 32;
pub(crate) const VOCAB: usize = 320;
pub(crate) const LAYERS: usize = 2;

/// A complete small GGUF model; `types` are taken in turn for the matrices.
pub(crate) fn small_gguf(architecture: &str, types: &[BlockType]) -> GgufMaker {
    let mut maker = GgufMaker::default();
    let number = |value: usize| Meta::U32(u32::try_from(value).unwrap());
    maker.set("general.architecture", Meta::Text(architecture.to_owned()));
    let key = |name: &str| format!("{architecture}.{name}");
    for (name, value) in [
        ("block_count", LAYERS),
        ("context_length", 512),
        ("embedding_length", HIDDEN),
        ("feed_forward_length", WIDE),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KV_HEADS),
        ("attention.key_length", HEAD_DIM),
    ] {
        maker.set(&key(name), number(value));
    }
    maker.set(&key("attention.layer_norm_rms_epsilon"), Meta::F32(1e-5));
    maker.set(&key("rope.freq_base"), Meta::F32(10_000.0));
    let gemma = architecture == "gemma3";
    if gemma {
        maker.set(&key("attention.sliding_window"), Meta::U32(16));
    }
    byte_level_tokenizer(&mut maker);

    let mut seed = 0;
    let mut next = types.iter().cycle();
    let mut matrix = |maker: &mut GgufMaker, name: &str, rows: usize, columns: usize| {
        seed += 1;
        let block_type = *next.next().unwrap();
        maker.tensor(name, &[rows, columns], block_type, blocks(seed, block_type, rows * columns));
    };
    let vector = |maker: &mut GgufMaker, name: &str, elements: usize| {
        maker.tensor(name, &[elements], BlockType::F32, blocks(elements as u64, BlockType::F32, elements));
    };
    matrix(&mut maker, "token_embd.weight", VOCAB, HIDDEN);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let mut norms = vec!["attn_norm", "ffn_norm"];
        if gemma {
            norms.extend(["post_attention_norm", "post_ffw_norm"]);
        }
        for norm in norms {
            vector(&mut maker, &name(&format!("{norm}.weight")), HIDDEN);
        }
        for (part, rows, columns) in [
            ("attn_q", HEADS * HEAD_DIM, HIDDEN),
            ("attn_k", KV_HEADS * HEAD_DIM, HIDDEN),
            ("attn_v", KV_HEADS * HEAD_DIM, HIDDEN),
            ("attn_output", HIDDEN, HEADS * HEAD_DIM),
            ("ffn_gate", WIDE, HIDDEN),
            ("ffn_up", WIDE, HIDDEN),
            ("ffn_down", HIDDEN, WIDE),
        ] {
            matrix(&mut maker, &name(&format!("{part}.weight")), rows, columns);
            if architecture == "qwen2" && matches!(part, "attn_q" | "attn_k" | "attn_v") {
                vector(&mut maker, &name(&format!("{part}.bias")), rows);
            }
        }
        if gemma || architecture == "qwen3" {
            vector(&mut maker, &name("attn_q_norm.weight"), HEAD_DIM);
            vector(&mut maker, &name("attn_k_norm.weight"), HEAD_DIM);
        }
    }
    vector(&mut maker, "output_norm.weight", HIDDEN);
    maker
}

/// A byte-level vocabulary of the 256 bytes, three merges and control tokens up to [`VOCAB`].
fn byte_level_tokenizer(maker: &mut GgufMaker) {
    let mut next = 0x100_u32;
    let mut tokens: Vec<String> = (0..=u8::MAX)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
            _ => {
                next += 1;
                char::from_u32(next - 1).unwrap().to_string()
            }
        })
        .collect();
    tokens.extend(["he", "ll", "hell"].map(str::to_owned));
    let mut kinds = vec![1; tokens.len()];
    for number in tokens.len()..VOCAB {
        tokens.push(format!("<|special_{number}|>"));
        kinds.push(3);
    }
    maker
        .set("tokenizer.ggml.model", Meta::Text("gpt2".to_owned()))
        .set("tokenizer.ggml.pre", Meta::Text("smollm".to_owned()))
        .set("tokenizer.ggml.tokens", Meta::Texts(tokens))
        .set("tokenizer.ggml.token_type", Meta::I32s(kinds))
        .set("tokenizer.ggml.merges", Meta::Texts(["h e", "l l", "he ll"].map(str::to_owned).to_vec()))
        .set("tokenizer.ggml.bos_token_id", Meta::U32(300))
        .set("tokenizer.ggml.eos_token_id", Meta::U32(301))
        .set("tokenizer.chat_template", Meta::Text("{{ messages[0]['content'] }}".to_owned()));
}
