//! The decoder: embedding, layers of attention and feed-forward, and the output layer with its loss.

use anyhow::{Context, Result, ensure};
use tch::{Device, Kind, Reduction, Tensor};

use crate::llama::attention::{Attention, Rotary};
use crate::llama::config::{Config, NORM_EPSILON, Parameter};

/// Places whose scores of all words are in memory at once: 64 MiB in float32 at 32 000 words. The scores of a whole
/// micro-batch, with what the loss keeps of them, would be most of the memory that a small model needs.
pub(crate) const PLACES_AT_ONCE: i64 = 512;

/// Where parameters come from.
pub(crate) trait Source {
    /// The values of one parameter, in any kind, on any device.
    ///
    /// # Errors
    /// There are none, or they have another shape.
    fn take(&mut self, parameter: &Parameter, kind: Kind, device: Device) -> Result<Tensor>;
}

/// Two norms, attention, and a feed-forward block with SwiGLU.
struct Layer {
    attention_norm: Tensor,
    attention: Attention,
    feed_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Layer {
    fn new(next: &mut impl FnMut() -> Result<Tensor>) -> Result<Self> {
        Ok(Self {
            attention_norm: next()?,
            attention: Attention { query: next()?, key: next()?, value: next()?, output: next()? },
            feed_norm: next()?,
            gate: next()?,
            up: next()?,
            down: next()?,
        })
    }

    fn forward(&self, inputs: &Tensor, config: &Config, rotary: &Rotary) -> Result<Tensor> {
        let attended = self.attention.forward(&normed(inputs, &self.attention_norm)?, config, rotary)?;
        let inputs = inputs.f_add(&attended)?;
        let features = normed(&inputs, &self.feed_norm)?;
        let gate = features.f_linear(&self.gate, None::<Tensor>)?.f_silu()?;
        let gated = gate.f_mul(&features.f_linear(&self.up, None::<Tensor>)?)?;
        Ok(inputs.f_add(&gated.f_linear(&self.down, None::<Tensor>)?)?)
    }

    fn parameters(&self) -> [&Tensor; 9] {
        let Attention { query, key, value, output } = &self.attention;
        [&self.attention_norm, query, key, value, output, &self.feed_norm, &self.gate, &self.up, &self.down]
    }
}

/// Divided by the root of the mean square, then weighted.
fn normed(inputs: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok(inputs.f_rms_norm(weight.size(), Some(weight), NORM_EPSILON)?)
}

/// A model with its weights.
pub(crate) struct Model {
    config: Config,
    rotary: Rotary,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// Absent where the embedding takes its place.
    head: Option<Tensor>,
}

impl Model {
    /// Takes all parameters from `source`; `sequence` is how many places a sequence may have.
    ///
    /// # Errors
    /// A parameter is not there or has another shape, or there is not enough memory.
    pub(crate) fn new(
        config: Config,
        sequence: i64,
        kind: Kind,
        device: Device,
        source: &mut impl Source,
    ) -> Result<Self> {
        let mut parameters = config.parameters().into_iter();
        let mut next = || -> Result<Tensor> {
            let parameter = parameters.next().context("the model has more parameters than its configuration")?;
            let values = source.take(&parameter, kind, device)?;
            ensure!(values.size() == parameter.shape, "{} has the shape {:?}", parameter.name, values.size());
            let values = values.f_to_device(device)?.f_to_kind(kind)?.f_contiguous()?;
            Ok(values.f_set_requires_grad(true)?)
        };
        let embedding = next()?;
        let layers = (0..config.layers).map(|_| Layer::new(&mut next)).collect::<Result<_>>()?;
        let norm = next()?;
        let head = if config.tied { None } else { Some(next()?) };
        let rotary = Rotary::new(&config, sequence, kind, device)?;
        Ok(Self { config, rotary, embedding, layers, norm, head })
    }

    /// All that is trained, in the order of [`Config::parameters`].
    pub(crate) fn parameters(&self) -> Vec<&Tensor> {
        let layers = self.layers.iter().flat_map(Layer::parameters);
        std::iter::once(&self.embedding).chain(layers).chain([&self.norm]).chain(&self.head).collect()
    }

    /// What the output layer reads, for each place of each sequence.
    fn features(&self, tokens: &Tensor) -> Result<Tensor> {
        let mut values = Tensor::f_embedding(&self.embedding, tokens, -1, false, false)?;
        for layer in &self.layers {
            values = layer.forward(&values, &self.config, &self.rotary)?;
        }
        normed(&values, &self.norm)
    }

    fn scores(&self, features: &Tensor) -> Result<Tensor> {
        Ok(features.f_linear(self.head.as_ref().unwrap_or(&self.embedding), None::<Tensor>)?)
    }

    /// Adds to the gradients those of `weight` times the mean loss over a batch: at each place of each sequence, the
    /// token in `targets` is to be told from those in `inputs` up to there. Gives that loss, unread, with its weight.
    ///
    /// # Errors
    /// libtorch failed, most likely for lack of memory.
    pub(crate) fn backward(&self, inputs: &Tensor, targets: &Tensor, weight: f64) -> Result<Tensor> {
        let features = self.features(inputs)?.f_flatten(0, 1)?;
        let targets = targets.f_flatten(0, 1)?;
        let places = i64::try_from(targets.numel())?;

        let mut total = Tensor::f_zeros([], (Kind::Float, inputs.device()))?;
        let mut gradients = Vec::new();
        for start in (0..places).step_by(PLACES_AT_ONCE as usize) {
            let count = PLACES_AT_ONCE.min(places - start);
            // A leaf of its own, so that the graph of these scores ends here and goes away with them.
            let part = features.f_detach()?.f_narrow(0, start, count)?.f_set_requires_grad(true)?;
            let loss = self.loss(&part, &targets.f_narrow(0, start, count)?)?.f_mul_scalar(weight / places as f64)?;
            loss.f_backward()?;
            total = total.f_add(&loss.f_detach()?)?;
            gradients.push(part.f_grad()?);
        }
        // The sum's gradient with respect to the features is the other factor; its own value does not matter.
        features.f_mul(&Tensor::f_cat(&gradients, 0)?)?.f_sum(features.kind())?.f_backward()?;
        Ok(total)
    }

    /// Sum of the losses over some places. In float32, since a float16 cannot hold sums over 32 000 words.
    fn loss(&self, features: &Tensor, targets: &Tensor) -> Result<Tensor> {
        let scores = self.scores(features)?;
        let kind = if scores.kind() == Kind::Double { Kind::Double } else { Kind::Float };
        Ok(scores.f_to_kind(kind)?.f_cross_entropy_loss(targets, None::<Tensor>, Reduction::Sum, -100, 0.0)?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::llama::reference::Reference;

    /// Small enough for plain loops; queries share keys two by two.
    pub(crate) const SMALL: Config =
        Config { vocabulary: 13, hidden: 8, intermediate: 12, layers: 2, heads: 4, key_value_heads: 2, tied: false };

    /// Values without an order to see, the same each time, wide enough that every part of the model matters; norms a
    /// little off one. Not libtorch's random numbers: their one generator serves all tests at once.
    #[derive(Default)]
    pub(crate) struct Noise {
        taken: u32,
    }

    impl Source for Noise {
        fn take(&mut self, parameter: &Parameter, _: Kind, device: Device) -> Result<Tensor> {
            self.taken += 1;
            let count: i64 = parameter.shape.iter().product();
            let phases = Tensor::f_arange(count, (Kind::Double, device))?.f_mul_scalar(12.9898)?;
            let noise = phases.f_add_scalar(78.233 * f64::from(self.taken))?.f_sin()?.f_mul_scalar(0.4)?;
            let noise = noise.f_view(parameter.shape.as_slice())?;
            Ok(if parameter.is_norm() { noise.f_add_scalar(1.0)? } else { noise })
        }
    }

    pub(crate) fn small(config: Config, kind: Kind) -> Model {
        Model::new(config, 60, kind, Device::Cpu, &mut Noise::default()).unwrap()
    }

    pub(crate) fn tokens(batch: i64, length: i64) -> Tensor {
        Tensor::randint(SMALL.vocabulary, [batch, length], (Kind::Int64, Device::Cpu))
    }

    /// The backward pass over sequences of one token more than the model reads.
    pub(crate) fn backward(model: &Model, tokens: &Tensor, weight: f64) -> f64 {
        let length = tokens.size()[1] - 1;
        let (inputs, targets) = (tokens.narrow(1, 0, length), tokens.narrow(1, 1, length));
        model.backward(&inputs, &targets, weight).unwrap().double_value(&[])
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.to_kind(Kind::Double).flatten(0, -1)).unwrap()
    }

    fn farthest(one: &[f64], other: &[f64]) -> f64 {
        assert_eq!(one.len(), other.len());
        one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn scores_agree_with_plain_loops_in_float64() {
        for (config, kind, tolerance) in [
            (SMALL, Kind::Double, 1e-12),
            (SMALL, Kind::Float, 1e-5),
            (Config { tied: true, key_value_heads: 4, ..SMALL }, Kind::Double, 1e-12),
        ] {
            let model = small(config, kind);
            let reference = Reference::of(config, &model.parameters());
            let tokens = tokens(3, 6);
            let scores = model.scores(&model.features(&tokens).unwrap()).unwrap();
            for sequence in 0..3 {
                let words: Vec<i64> = Vec::try_from(tokens.get(sequence)).unwrap();
                let expected: Vec<f64> = reference.scores(&words).concat();
                let distance = farthest(&values(&scores.get(sequence)), &expected);
                assert!(distance < tolerance, "{kind:?}: {distance}");
            }
        }
    }

    #[test]
    fn gradients_agree_with_differences_of_the_reference_loss() {
        for config in [SMALL, Config { tied: true, ..SMALL }] {
            let model = small(config, Kind::Double);
            let tokens = tokens(2, 3);
            let loss = backward(&model, &tokens, 3.0);
            let mut reference = Reference::of(config, &model.parameters());
            assert!((loss - 3.0 * reference.loss(&tokens)).abs() < 1e-6, "{loss}");
            for (index, parameter) in model.parameters().into_iter().enumerate() {
                let expected: Vec<f64> =
                    reference.gradient(index, &tokens).into_iter().map(|slope| 3.0 * slope).collect();
                let distance = farthest(&values(&parameter.grad()), &expected);
                assert!(distance < 1e-6, "parameter {index}: {distance}");
            }
        }
    }

    #[test]
    fn gradients_do_not_depend_on_how_many_places_are_scored_at_once() {
        // Six hundred places are scored in two parts; the same sequences one by one in a part each.
        let (together, apart) = (small(SMALL, Kind::Double), small(SMALL, Kind::Double));
        let tokens = tokens(10, 61);
        backward(&together, &tokens, 1.0);
        for sequence in 0..10 {
            backward(&apart, &tokens.narrow(0, sequence, 1), 0.1);
        }
        for (one, other) in together.parameters().into_iter().zip(apart.parameters()) {
            assert!(farthest(&values(&one.grad()), &values(&other.grad())) < 1e-12);
        }
    }

    #[test]
    fn a_model_has_the_parameters_of_its_configuration_in_their_order() {
        for config in [SMALL, Config { tied: true, ..SMALL }] {
            let model = small(config, Kind::Float);
            let shapes: Vec<Vec<i64>> = model.parameters().into_iter().map(Tensor::size).collect();
            let expected: Vec<Vec<i64>> = config.parameters().into_iter().map(|parameter| parameter.shape).collect();
            assert_eq!(shapes, expected);
        }
    }
}
