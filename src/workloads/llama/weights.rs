//! Where weights come from: drawn at random, or a folder of safetensors as Hugging Face publishes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use memmap2::Mmap;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::Deserialize;
use shice::files;
use tch::{Device, Kind, Tensor};

use crate::llama::config::{Config, Parameter};
use crate::llama::mapped;
use crate::llama::model::Source;

/// Standard deviation of weights drawn at random; Llama-2's `initializer_range`.
const SPREAD: f64 = 0.02;

/// Weights drawn at random, norms at one.
pub(crate) struct Random;

impl Source for Random {
    fn take(&mut self, parameter: &Parameter, kind: Kind, device: Device) -> Result<Tensor> {
        // On the device and in its kind, so that a large model is never there in float32.
        let values = Tensor::f_empty(&parameter.shape, (kind, device));
        let mut values = values.with_context(|| format!("cannot hold {}", parameter.name))?;
        Ok(if parameter.is_norm() { values.f_fill_(1.0)? } else { values.f_normal_(0.0, SPREAD)? })
    }
}

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
/// Frequencies of the rotary embedding, which older exports hold though they follow from the shape.
const IGNORED: &str = "rotary_emb.inv_freq";

/// The index of a model in several files.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// A folder of weights, each tensor checked and none read yet.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    files: Vec<Mmap>,
    tensors: BTreeMap<String, Stored>,
}

/// Where a tensor lies.
#[derive(Debug)]
struct Stored {
    file: usize,
    kind: Kind,
    shape: Vec<i64>,
    start: usize,
    end: usize,
}

impl Folder {
    /// Opens a folder that holds a model of this shape, in one file or in several with an index.
    ///
    /// # Errors
    /// A file is missing or damaged, a parameter is missing, misshapen or of a kind that cannot be trained, or there are
    /// tensors that the model has no place for.
    pub(crate) fn open(path: &Path, config: &Config) -> Result<Self> {
        let mut folder = Self { path: path.to_owned(), files: Vec::new(), tensors: BTreeMap::new() };
        for name in names(path)? {
            folder.add(&path.join(name))?;
        }
        folder.check(config)?;
        Ok(folder)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let mapped = mapped::open(path)?;
        let (header, metadata) = SafeTensors::read_metadata(&mapped)
            .map_err(|error| anyhow::anyhow!("{error:?}"))
            .with_context(|| format!("{} is no whole safetensors file; download it again", path.display()))?;
        for (name, tensor) in metadata.tensors() {
            if name.ends_with(IGNORED) {
                continue;
            }
            let kind = kind(tensor.dtype).with_context(|| {
                format!("{name} in {} is of {:?}; give weights in F16, BF16 or F32", path.display(), tensor.dtype)
            })?;
            let shape = tensor.shape.iter().map(|size| i64::try_from(*size)).collect::<Result<_, _>>()?;
            // Offsets count from the end of the header, which a length of eight bytes precedes.
            let (start, end) = tensor.data_offsets;
            let (start, end) = (8 + header + start, 8 + header + end);
            let stored = Stored { file: self.files.len(), kind, shape, start, end };
            let twice = self.tensors.insert(name.clone(), stored).is_some();
            ensure!(
                !twice,
                "{name} is in two files of {}; take away the one that does not belong there",
                self.path.display()
            );
        }
        self.files.push(mapped);
        Ok(())
    }

    fn check(&self, config: &Config) -> Result<()> {
        let folder = self.path.display();
        let parameters = config.parameters();
        for Parameter { name, shape } in &parameters {
            let stored = self.tensors.get(name);
            let stored = stored.with_context(|| {
                format!("{folder} has no {name}; give the folder of a whole model, and its size as --model")
            })?;
            if stored.shape != *shape {
                bail!(
                    "{name} in {folder} has the shape {:?}, not {shape:?}; give the model's size as --model",
                    stored.shape
                );
            }
        }
        let known: BTreeSet<&String> = parameters.iter().map(|parameter| &parameter.name).collect();
        match self.tensors.keys().find(|name| !known.contains(name)) {
            Some(name) => {
                bail!("{folder} has {name}, for which the model has no place; give the model's size as --model")
            }
            None => Ok(()),
        }
    }
}

impl Source for Folder {
    fn take(&mut self, parameter: &Parameter, _: Kind, _: Device) -> Result<Tensor> {
        let Parameter { name, .. } = parameter;
        let stored = self.tensors.get(name).with_context(|| format!("{} has no {name}", self.path.display()))?;
        let bytes = self.files[stored.file].get(stored.start..stored.end);
        let bytes = bytes.with_context(|| format!("{name} does not lie within its file"))?;
        Tensor::f_from_data_size(bytes, &stored.shape, stored.kind).with_context(|| format!("cannot hold {name}"))
    }
}

/// The files of a model, by their names in its folder.
fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let path = folder.join(INDEX);
    if !path.exists() {
        ensure!(
            folder.join(SINGLE).exists(),
            "{} has neither {INDEX} nor {SINGLE}; give a folder of weights in safetensors as --weights",
            folder.display()
        );
        return Ok(BTreeSet::from([SINGLE.to_owned()]));
    }
    let text = files::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let index: Index = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no index of safetensors; download it again", path.display()))?;
    let files: BTreeSet<String> = index.weight_map.into_values().collect();
    match files.iter().find(|name| Path::new(name).file_name() != Some(name.as_ref())) {
        Some(name) => bail!("{} names {name:?}, which is no file beside it", path.display()),
        None => Ok(files),
    }
}

/// The kinds that models are published in.
fn kind(dtype: Dtype) -> Option<Kind> {
    match dtype {
        Dtype::F16 => Some(Kind::Half),
        Dtype::BF16 => Some(Kind::BFloat16),
        Dtype::F32 => Some(Kind::Float),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use safetensors::tensor::{TensorView, serialize_to_file};

    use super::*;
    use crate::llama::model::Model;
    use crate::llama::model::tests::{SMALL, backward, small, tokens};

    /// A file of tensors.
    fn write(path: &Path, tensors: &[(String, Tensor)]) {
        let bytes: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, tensor)| {
                let width = tensor.kind().elt_size_in_bytes();
                let mut bytes = vec![0; tensor.numel() * width];
                tensor.copy_data_u8(&mut bytes, tensor.numel());
                bytes
            })
            .collect();
        let view = |((name, tensor), bytes): (&(String, Tensor), &'_ Vec<u8>)| {
            let dtype = match tensor.kind() {
                Kind::Half => Dtype::F16,
                Kind::BFloat16 => Dtype::BF16,
                Kind::Int64 => Dtype::I64,
                _ => Dtype::F32,
            };
            let shape = tensor.size().into_iter().map(|size| size as usize).collect();
            (name.clone(), dtype, shape, bytes.clone())
        };
        let owned: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = tensors.iter().zip(&bytes).map(view).collect();
        let views: HashMap<&str, TensorView<'_>> = owned
            .iter()
            .map(|(name, dtype, shape, bytes)| (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap()))
            .collect();
        serialize_to_file(views, &None, path).unwrap();
    }

    /// The parameters of a small model with their names, in a kind.
    fn named(kind: Kind) -> Vec<(String, Tensor)> {
        let model = small(SMALL, kind);
        let names = SMALL.parameters().into_iter().map(|parameter| parameter.name);
        names.zip(model.parameters().into_iter().map(Tensor::detach)).collect()
    }

    fn refusal(folder: &Path) -> String {
        format!("{:#}", Folder::open(folder, &SMALL).unwrap_err())
    }

    #[test]
    fn a_model_that_was_written_scores_as_before_from_one_file_or_two() {
        for kind in [Kind::Float, Kind::Half, Kind::BFloat16] {
            let mut tensors = named(kind);
            // Older exports have it; it is not a parameter.
            tensors.push(("model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(), Tensor::from_slice(&[1_i64])));
            let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            write(&one.path().join(SINGLE), &tensors);
            let second = tensors.split_off(9);
            write(&two.path().join("model-1.safetensors"), &tensors);
            write(&two.path().join("model-2.safetensors"), &second);
            let map: BTreeMap<&String, &str> = tensors
                .iter()
                .map(|(name, _)| (name, "model-1.safetensors"))
                .chain(second.iter().map(|(name, _)| (name, "model-2.safetensors")))
                .collect();
            let index = serde_json::json!({"metadata": {"total_size": 1}, "weight_map": map});
            std::fs::write(two.path().join(INDEX), index.to_string()).unwrap();

            let tokens = tokens(2, 6);
            let expected = backward(&small(SMALL, kind), &tokens, 1.0);
            for folder in [&one, &two] {
                let mut source = Folder::open(folder.path(), &SMALL).unwrap();
                let model = Model::new(SMALL, 6, kind, Device::Cpu, &mut source).unwrap();
                assert_eq!(backward(&model, &tokens, 1.0), expected, "{kind:?}");
            }
        }
    }

    #[test]
    fn what_is_missing_misshapen_or_of_no_use_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refusal(folder.path()).contains(INDEX));
        let file = folder.path().join(SINGLE);

        let whole = named(Kind::Float);
        let without = |name: &str| -> Vec<(String, Tensor)> {
            let kept = whole.iter().filter(|(known, _)| known != name);
            kept.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect()
        };
        let name = "model.layers.1.mlp.up_proj.weight";
        write(&file, &without(name));
        assert!(refusal(folder.path()).contains(&format!("has no {name}")));
        for (tensor, told) in [
            (Tensor::zeros([8, 12], (Kind::Float, Device::Cpu)), "has the shape [8, 12], not [12, 8]"),
            (Tensor::zeros([12, 8], (Kind::Int64, Device::Cpu)), "is of I64"),
        ] {
            let mut tensors = without(name);
            tensors.push((name.to_owned(), tensor));
            write(&file, &tensors);
            let message = refusal(folder.path());
            assert!(message.contains(name) && message.contains(told), "{message}");
        }
        let mut tensors = without("");
        tensors.push(("model.layers.2.mlp.up_proj.weight".to_owned(), Tensor::from_slice(&[1.0_f32])));
        write(&file, &tensors);
        assert!(refusal(folder.path()).contains("has no place"));
    }

    #[test]
    fn a_file_that_was_cut_short_or_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(SINGLE);
        write(&file, &named(Kind::Float));
        let whole = std::fs::read(&file).unwrap();
        for length in [whole.len() - 1, 100, 3] {
            std::fs::write(&file, &whole[..length]).unwrap();
            let message = refusal(folder.path());
            assert!(message.contains(SINGLE) && message.contains("whole"), "{message}");
        }
        for (index, told) in [
            (r#"{"weight_map": {"a": "model-9.safetensors"}}"#, "model-9.safetensors"),
            (r#"{"weight_map": {"a": "../model.safetensors"}}"#, "no file beside it"),
            ("[]", INDEX),
        ] {
            std::fs::write(folder.path().join(INDEX), index).unwrap();
            assert!(refusal(folder.path()).contains(told), "{index}");
        }
    }

    #[test]
    fn weights_drawn_at_random_spread_as_they_should_and_norms_are_one() {
        let draw = |name: &str, shape: &[i64]| {
            let parameter = Parameter { name: name.to_owned(), shape: shape.to_vec() };
            Random.take(&parameter, Kind::Float, Device::Cpu).unwrap()
        };
        let values = draw("model.embed_tokens.weight", &[300, 300]);
        // Five standard errors of 90 000 draws.
        assert!(values.mean(Kind::Double).double_value(&[]).abs() < 5.0 * SPREAD / 300.0);
        assert!((values.std(true).double_value(&[]) / SPREAD - 1.0).abs() < 5.0 / (2.0_f64.sqrt() * 300.0));
        assert_eq!(draw("model.norm.weight", &[8]), Tensor::ones([8], (Kind::Float, Device::Cpu)));
    }
}
