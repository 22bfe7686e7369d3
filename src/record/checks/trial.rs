//! Tries CUDA by real kernels: `shice-workloads cuda` runs one on each GPU, in a process of its own, so that nothing of
//! its CUDA context is left on the GPU when it has ended. Where it is not here, or its libtorch has no CUDA, the torch of
//! Python can be tried the same way.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::record::child;
use crate::record::threads;

/// Loading CUDA's libraries from a cold disk and waking the GPUs takes tens of seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// What Python says where it has no torch.
const NO_TORCH: &str = "No module named 'torch'";
/// Does in Python what `shice-workloads cuda` does.
const SCRIPT: &str = r#"
import json, torch
def tried(device):
    try:
        total = torch.ones(2, device=device).sum().item()
        return None if total == 2 else f"1 + 1 was {total}"
    except Exception as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.version.cuda else []
print(json.dumps({
    "libtorch": torch.__version__,
    "missing": None if torch.version.cuda else "built without CUDA",
    "cuda_runtime": torch.version.cuda,
    "devices": [{"device": device, "error": tried(device)} for device in devices],
}))
"#;
const LOOK: Duration = Duration::from_millis(20);

/// What became of the trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Trial {
    /// There was no reason to: no driver that could be used, or not asked for.
    #[default]
    NotTried,
    /// Neither `shice-workloads` is here nor, where it may stand in, a Python with torch.
    NoProgram,
    /// It did not end in time.
    Hung,
    /// It ended without an answer: its last words.
    Broke(String),
    Told(Told),
}

/// The program's answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Told {
    /// Version of the libtorch that it links.
    pub libtorch: String,
    /// Why libtorch's CUDA half is not there; absent where it is.
    #[serde(default)]
    pub missing: Option<String>,
    /// Version of the CUDA runtime: `13.0`.
    #[serde(default)]
    pub cuda_runtime: Option<String>,
    #[serde(default)]
    pub devices: Vec<Tried>,
}

/// One GPU, by CUDA's number.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Tried {
    pub device: String,
    /// Why no kernel ran there.
    #[serde(default)]
    pub error: Option<String>,
}

/// Runs the program and waits for its end.
pub fn run(program: &Path) -> Trial {
    let mut command = Command::new(program);
    command.arg("cuda");
    answer(command, PATIENCE)
}

/// Tries the torch of the Python that a user would start, where there is one.
pub fn run_python() -> Trial {
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT]);
    match answer(command, PATIENCE) {
        // No Python, or none with torch: nothing was tried.
        Trial::Broke(words) if words.contains(NO_TORCH) => Trial::NoProgram,
        Trial::Broke(_) if child::resolve("python3").is_err() => Trial::NoProgram,
        other => other,
    }
}

fn answer(mut command: Command, patience: Duration) -> Trial {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Trial::Broke(error.to_string()),
    };
    let (stdout, stderr) = (listen(child.stdout.take()), listen(child.stderr.take()));
    let begun = Instant::now();
    while let Ok(None) = child.try_wait() {
        if begun.elapsed() > patience {
            // One that hangs in the driver cannot be ended, and is not waited for.
            let _ = child.kill();
            return Trial::Hung;
        }
        thread::sleep(LOOK);
    }
    let heard = |words: mpsc::Receiver<Vec<u8>>| words.recv_timeout(PATIENCE).unwrap_or_default();
    match serde_json::from_slice(&heard(stdout)) {
        Ok(told) => Trial::Told(told),
        Err(_) => Trial::Broke(last_line(&String::from_utf8_lossy(&heard(stderr)))),
    }
}

/// Reads a stream to its end on a thread of its own: a full pipe would stop the program.
fn listen(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    // Where no thread is to be had nothing is heard.
    let _ = threads::start("trial", move || {
        let mut bytes = Vec::new();
        // What was read before an error still counts.
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        let _ = sender.send(bytes);
    });
    receiver
}

fn last_line(text: &str) -> String {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(script: &str, patience: Duration) -> Trial {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        answer(command, patience)
    }

    #[test]
    fn the_programs_answer_is_taken_and_bad_ends_are_told_apart() {
        let told =
            tried(r#"echo '{"libtorch":"2.11.0","cuda_runtime":"13.0","devices":[{"device":"cuda:0"}]}'"#, PATIENCE);
        let devices = vec![Tried { device: "cuda:0".to_owned(), error: None }];
        let expected =
            Told { libtorch: "2.11.0".to_owned(), missing: None, cuda_runtime: Some("13.0".to_owned()), devices };
        assert_eq!(told, Trial::Told(expected));
        assert_eq!(tried("echo first >&2; echo last >&2; exit 3", PATIENCE), Trial::Broke("last".to_owned()));
        assert_eq!(tried("exec sleep 60", Duration::from_millis(50)), Trial::Hung);
    }

    #[test]
    fn a_program_that_cannot_be_started_breaks_and_does_not_panic() {
        assert!(matches!(run(Path::new("/no/such/program")), Trial::Broke(_)));
    }
}
