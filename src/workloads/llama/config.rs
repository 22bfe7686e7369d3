//! The Llama-2 architecture in numbers: its sizes, and the name and shape of each parameter.

use std::fmt;

use clap::ValueEnum;

/// The sizes that ship.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// 15 million parameters, for a CPU.
    Tiny,
    /// TinyLlama's shape: 1.1 billion parameters.
    #[value(name = "1b")]
    Billion,
    /// Llama-2-7B: 6 738 415 616 parameters.
    #[value(name = "7b")]
    SevenBillion,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Size::Tiny => "tiny",
            Size::Billion => "1b",
            Size::SevenBillion => "7b",
        })
    }
}

/// A shape of the architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) vocabulary: i64,
    /// Width of a token's vector.
    pub(crate) hidden: i64,
    /// Width inside of a feed-forward block.
    pub(crate) intermediate: i64,
    pub(crate) layers: i64,
    pub(crate) heads: i64,
    /// Heads of keys and values: fewer than `heads` where several queries share one.
    pub(crate) key_value_heads: i64,
    /// Whether the output layer is the embedding, read the other way round.
    pub(crate) tied: bool,
}

/// Added to the mean square before its root is taken; Llama-2's.
pub(crate) const NORM_EPSILON: f64 = 1e-5;
/// Wavelengths of the rotary embedding run from 2π to this times 2π.
pub(crate) const ROTARY_BASE: f64 = 10_000.0;

/// A parameter, as Hugging Face names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) shape: Vec<i64>,
}

impl Parameter {
    /// Whether it weights a norm; all others are matrices.
    pub(crate) fn is_norm(&self) -> bool {
        self.shape.len() == 1
    }
}

impl Config {
    pub(crate) const fn of(size: Size) -> Self {
        match size {
            Size::Tiny => Self {
                vocabulary: 32_000,
                hidden: 288,
                intermediate: 768,
                layers: 6,
                heads: 6,
                key_value_heads: 6,
                tied: true,
            },
            Size::Billion => Self {
                vocabulary: 32_000,
                hidden: 2048,
                intermediate: 5632,
                layers: 22,
                heads: 32,
                key_value_heads: 4,
                tied: false,
            },
            Size::SevenBillion => Self {
                vocabulary: 32_000,
                hidden: 4096,
                intermediate: 11_008,
                layers: 32,
                heads: 32,
                key_value_heads: 32,
                tied: false,
            },
        }
    }

    /// Width of one head.
    pub(crate) const fn head(&self) -> i64 {
        self.hidden / self.heads
    }

    /// Width of the keys, and of the values, of all heads.
    pub(crate) const fn key_value(&self) -> i64 {
        self.key_value_heads * self.head()
    }

    /// All parameters, in the order in which the model is built.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let Self { vocabulary, hidden, .. } = *self;
        let mut all = vec![parameter("model.embed_tokens.weight", &[vocabulary, hidden])];
        for layer in 0..self.layers {
            all.extend(self.layer(&format!("model.layers.{layer}")));
        }
        all.push(parameter("model.norm.weight", &[hidden]));
        if !self.tied {
            all.push(parameter("lm_head.weight", &[vocabulary, hidden]));
        }
        all
    }

    fn layer(&self, prefix: &str) -> [Parameter; 9] {
        let Self { hidden, intermediate, .. } = *self;
        let key_value = self.key_value();
        [
            ("input_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![key_value, hidden]),
            ("self_attn.v_proj", vec![key_value, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("post_attention_layernorm", vec![hidden]),
            ("mlp.gate_proj", vec![intermediate, hidden]),
            ("mlp.up_proj", vec![intermediate, hidden]),
            ("mlp.down_proj", vec![hidden, intermediate]),
        ]
        .map(|(name, shape)| Parameter { name: format!("{prefix}.{name}.weight"), shape })
    }

    /// Number of values in all parameters.
    pub(crate) fn count(&self) -> u64 {
        let sizes = self.parameters().into_iter().map(|parameter| parameter.shape.into_iter().product::<i64>());
        sizes.map(i64::unsigned_abs).sum()
    }
}

fn parameter(name: &str, shape: &[i64]) -> Parameter {
    Parameter { name: name.to_owned(), shape: shape.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_as_many_parameters_as_the_published_model() {
        // Llama-2-7B and TinyLlama-1.1B as their model cards have them. Tiny by hand, its embedding counted once:
        // 32000·288 + 6·(4·288² + 3·288·768 + 2·288) + 288.
        for (size, count) in
            [(Size::SevenBillion, 6_738_415_616), (Size::Billion, 1_100_048_384), (Size::Tiny, 15_191_712)]
        {
            assert_eq!(Config::of(size).count(), count, "{size}");
        }
    }

    #[test]
    fn heads_divide_the_width_and_halves_of_a_head_can_be_rotated() {
        for size in [Size::SevenBillion, Size::Billion, Size::Tiny] {
            let config = Config::of(size);
            assert_eq!(config.head() * config.heads, config.hidden);
            assert_eq!(config.head() % 2, 0);
            assert_eq!(config.heads % config.key_value_heads, 0);
        }
    }
}
