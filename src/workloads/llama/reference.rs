//! The model once more, for tests: plain loops in float64, written from the papers and not from the code beside it.

use tch::{Kind, Tensor};

use crate::llama::config::Config;

type Matrix = Vec<Vec<f64>>;

/// Parameters as lists of rows; a norm's weights are one row.
pub(crate) struct Reference {
    config: Config,
    parameters: Vec<Matrix>,
}

impl Reference {
    pub(crate) fn of(config: Config, parameters: &[&Tensor]) -> Self {
        let rows = |tensor: &&Tensor| -> Matrix {
            let width = tensor.size().last().copied().unwrap();
            let rows = tensor.detach().to_kind(Kind::Double).view([-1, width]);
            (0..rows.size()[0]).map(|row| Vec::try_from(rows.get(row)).unwrap()).collect()
        };
        Self { config, parameters: parameters.iter().map(rows).collect() }
    }

    /// Scores of all words at each place.
    pub(crate) fn scores(&self, words: &[i64]) -> Matrix {
        let mut stream: Matrix = words.iter().map(|word| self.parameters[0][*word as usize].clone()).collect();
        let layers = self.config.layers as usize;
        for layer in 0..layers {
            let [norm, query, key, value, output, feed_norm, gate, up, down] =
                std::array::from_fn(|index| &self.parameters[1 + 9 * layer + index]);
            let inputs: Matrix = stream.iter().map(|place| normed(place, &norm[0])).collect();
            let attended = self.attention(&inputs, [query, key, value]);
            for (place, taken) in stream.iter_mut().zip(attended) {
                add(place, &product(output, &taken));
                let features = normed(place, &feed_norm[0]);
                let swish = |x: f64| x / (1.0 + (-x).exp());
                let gates = product(gate, &features).into_iter().map(swish);
                let gated: Vec<f64> = gates.zip(product(up, &features)).map(|(gate, up)| gate * up).collect();
                add(place, &product(down, &gated));
            }
        }
        let norm = &self.parameters[1 + 9 * layers][0];
        let head = if self.config.tied { &self.parameters[0] } else { &self.parameters[2 + 9 * layers] };
        stream.iter().map(|place| product(head, &normed(place, norm))).collect()
    }

    fn attention(&self, inputs: &Matrix, [query, key, value]: [&Matrix; 3]) -> Matrix {
        let width = (self.config.hidden / self.config.heads) as usize;
        let shared = (self.config.heads / self.config.key_value_heads) as usize;
        let head = |weights: &Matrix, place: usize, head: usize| {
            product(weights, &inputs[place])[head * width..(head + 1) * width].to_vec()
        };
        let attend = |place: usize, index: usize| -> Vec<f64> {
            let query = turned(&head(query, place, index), place);
            let keys = (0..=place).map(|earlier| turned(&head(key, earlier, index / shared), earlier));
            let weights: Vec<f64> = keys.map(|key| (dot(&query, &key) / (width as f64).sqrt()).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mut taken = vec![0.0; width];
            for (earlier, weight) in weights.iter().enumerate() {
                let values = head(value, earlier, index / shared);
                add(&mut taken, &values.iter().map(|value| value * weight / sum).collect::<Vec<_>>());
            }
            taken
        };
        let heads = self.config.heads as usize;
        (0..inputs.len()).map(|place| (0..heads).flat_map(|index| attend(place, index)).collect()).collect()
    }

    /// Mean loss over all sequences and places, each of which has to tell the next word.
    pub(crate) fn loss(&self, tokens: &Tensor) -> f64 {
        let (batch, length) = tokens.size2().unwrap();
        let sequence = |index: i64| -> f64 {
            let words: Vec<i64> = Vec::try_from(tokens.get(index)).unwrap();
            let scores = self.scores(&words[..words.len() - 1]);
            let surprise = |(scores, next): (&Vec<f64>, &i64)| {
                scores.iter().map(|score| score.exp()).sum::<f64>().ln() - scores[*next as usize]
            };
            scores.iter().zip(&words[1..]).map(surprise).sum()
        };
        (0..batch).map(sequence).sum::<f64>() / (batch * (length - 1)) as f64
    }

    /// The loss's slope along each value of a parameter, from a small step to either side.
    pub(crate) fn gradient(&mut self, parameter: usize, tokens: &Tensor) -> Vec<f64> {
        const STEP: f64 = 1e-5;
        let places = self.parameters[parameter].iter().enumerate();
        let places: Vec<_> =
            places.flat_map(|(row, values)| (0..values.len()).map(move |column| (row, column))).collect();
        let mut slope = |(row, column): (usize, usize)| {
            let value = self.parameters[parameter][row][column];
            let mut loss = |moved: f64| {
                self.parameters[parameter][row][column] = moved;
                self.loss(tokens)
            };
            let slope = (loss(value + STEP) - loss(value - STEP)) / (2.0 * STEP);
            self.parameters[parameter][row][column] = value;
            slope
        };
        places.into_iter().map(&mut slope).collect()
    }
}

/// By the rotary paper, each pair of values as one complex number; pairs are half a head apart.
fn turned(vector: &[f64], place: usize) -> Vec<f64> {
    let half = vector.len() / 2;
    let mut turned = vector.to_vec();
    for pair in 0..half {
        let angle = place as f64 / 10_000_f64.powf(2.0 * pair as f64 / vector.len() as f64);
        turned[pair] = vector[pair] * angle.cos() - vector[pair + half] * angle.sin();
        turned[pair + half] = vector[pair] * angle.sin() + vector[pair + half] * angle.cos();
    }
    turned
}

fn normed(vector: &[f64], weights: &[f64]) -> Vec<f64> {
    let square = dot(vector, vector) / vector.len() as f64;
    vector.iter().zip(weights).map(|(value, weight)| weight * value / (square + 1e-5).sqrt()).collect()
}

fn product(matrix: &Matrix, vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, vector)).collect()
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn add(to: &mut [f64], what: &[f64]) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += what;
    }
}
