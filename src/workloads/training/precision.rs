//! Which numbers a training loop computes with.

use std::env::VarError;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use tch::{Device, Kind, Tensor};

use crate::device::{Choice, Name};

/// NVIDIA's libraries read it when they are loaded: 0 forbids TF32, whatever the program says.
const NVIDIA: &str = "NVIDIA_TF32_OVERRIDE";
/// libtorch's own switch for matrix products; 1 allows them TF32. For cuDNN's convolutions that is the default.
const LIBTORCH: &str = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE";

/// A precision as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// What PyTorch does untouched: float32, on a GPU with convolutions that may use TF32; Llama in float16 on a GPU.
    Default,
    /// float32 everywhere, no TF32.
    Fp32,
    /// float32 whose convolutions and matrix products may use TF32; GPUs only.
    Tf32,
    /// float16 with loss scaling, by autocast, of Llama the weights too; GPUs only.
    Fp16,
    /// Layers in bfloat16 over weights in float32; of Llama the weights too.
    Bf16,
}

impl Precision {
    /// What the workload's layers compute with. With autocast libtorch chooses by itself.
    pub(crate) fn kind(self) -> Kind {
        if self == Self::Bf16 { Kind::BFloat16 } else { Kind::Float }
    }

    /// Starts the program anew where this precision needs variables that libraries read when they are loaded, before
    /// anything else happens; returns where it does not.
    ///
    /// # Errors
    /// The device that was asked for cannot do this, or the program cannot be started.
    pub(crate) fn prepare(self, choice: Choice) -> Result<()> {
        if choice == Choice::Cpu {
            return self.refuse_on_cpu();
        }
        let wanted = self.variables();
        if wanted.iter().all(|(name, value)| std::env::var(name).as_deref() == Ok(value)) {
            return Ok(());
        }
        let program = std::env::current_exe().context("cannot find this program")?;
        let error = Command::new(&program).args(std::env::args_os().skip(1)).envs(wanted.iter().copied()).exec();
        Err(error).with_context(|| format!("cannot start {} with {NVIDIA}", program.display()))
    }

    /// What the libraries have to find in their environment.
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Fp32 => &[(NVIDIA, "0"), (LIBTORCH, "0")],
            Self::Tf32 => &[(NVIDIA, "1"), (LIBTORCH, "1")],
            Self::Default | Self::Fp16 | Self::Bf16 => &[],
        }
    }

    /// Tries out whether the device computes as asked for.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn check(self, device: Device) -> Result<()> {
        if !device.is_cuda() {
            return self.refuse_on_cpu();
        }
        let rounds = match self {
            Self::Fp32 | Self::Tf32 => rounds_to_tf32(device)?,
            Self::Default | Self::Fp16 | Self::Bf16 => return Ok(()),
        };
        let device = Name(device);
        match self {
            Self::Tf32 if !rounds => bail!(
                "{device} does not compute in TF32, which GPUs do from Ampere on; give --precision fp32, or leave it out"
            ),
            Self::Fp32 if rounds => bail!("{device} computes in TF32 in spite of {NVIDIA}=0; give --precision tf32"),
            _ => Ok(()),
        }
    }

    fn refuse_on_cpu(self) -> Result<()> {
        match self {
            Self::Tf32 => bail!("the CPU has no TF32; give --precision fp32 or bf16, or a GPU as --device"),
            Self::Fp16 => bail!(
                "the CPU has no float16 training, its autocast is for bfloat16; give --precision bf16 or fp32, or a GPU as --device"
            ),
            Self::Default | Self::Fp32 | Self::Bf16 => Ok(()),
        }
    }

    /// What it became, in words.
    pub(crate) fn effective(self, device: Device) -> &'static str {
        match self {
            Self::Fp16 => "float16 by autocast, weights in float32, dynamic loss scaling",
            Self::Bf16 => "bfloat16 layers, weights in float32",
            _ if !device.is_cuda() => "float32",
            _ => tf32_allowed(std::env::var(NVIDIA), std::env::var(LIBTORCH)),
        }
    }
}

/// Where float32 may become TF32, by the variables that the libraries found.
fn tf32_allowed(nvidia: Result<String, VarError>, libtorch: Result<String, VarError>) -> &'static str {
    let is = |variable: Result<String, VarError>, value: &str| variable.is_ok_and(|text| text == value);
    if is(nvidia, "0") {
        "float32 (no TF32)"
    } else if is(libtorch, "1") {
        "float32 (convolutions and matrix products may use TF32)"
    } else {
        "float32 (convolutions may use TF32)"
    }
}

/// Whether a product of matrices loses what TF32 has no digits for.
fn rounds_to_tf32(device: Device) -> Result<bool> {
    /// Large enough for a GPU to use its tensor cores.
    const SIDE: i64 = 1024;
    // TF32 keeps 10 binary digits after the point, float32 23.
    let more = 1.0 + f64::from(2.0_f32.powi(-14));
    let matrix = Tensor::f_full([SIDE, SIDE], more, (Kind::Float, device))?;
    let same = matrix.f_matmul(&Tensor::f_eye(SIDE, (Kind::Float, device))?)?;
    Ok(same.f_max()?.f_double_value(&[])? != more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_refuses_what_it_has_not_and_says_what_it_has() {
        for precision in [Precision::Fp16, Precision::Tf32] {
            let message = precision.prepare(Choice::Cpu).unwrap_err().to_string();
            assert!(message.contains("CPU") && message.contains("--precision"), "{message}");
            assert!(precision.check(Device::Cpu).is_err());
        }
        for precision in [Precision::Default, Precision::Fp32, Precision::Bf16] {
            precision.prepare(Choice::Cpu).unwrap();
            precision.check(Device::Cpu).unwrap();
        }
    }

    #[test]
    fn float32_of_the_cpu_does_not_round_to_tf32() {
        assert!(!rounds_to_tf32(Device::Cpu).unwrap());
    }

    #[test]
    fn what_becomes_of_float32_on_a_gpu_follows_from_the_variables() {
        let set = |value: &str| Ok(value.to_owned());
        let absent = || Err(VarError::NotPresent);
        assert_eq!(tf32_allowed(absent(), absent()), "float32 (convolutions may use TF32)");
        assert_eq!(tf32_allowed(set("0"), set("1")), "float32 (no TF32)");
        assert_eq!(tf32_allowed(set("1"), set("1")), "float32 (convolutions and matrix products may use TF32)");
    }
}
