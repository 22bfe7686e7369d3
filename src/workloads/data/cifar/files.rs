//! The files of CIFAR-10's binary version: 10 000 images each, of a byte that tells the class and 3 072 of pixels.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use shice::files;

use super::{CLASSES, PIXELS, SIDE};

/// Those to learn from.
pub(super) const FILES: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
/// Images of a file.
pub(super) const IMAGES: u32 = 10_000;
const RECORD: usize = 1 + PIXELS;
/// What the page of the data set says: 5 000 images of each class in the five files.
const OF_A_CLASS: usize = 5_000;
/// The mean of each colour over all of them, in units of 255, as it is commonly given.
const MEANS: [f64; 3] = [0.4914, 0.4822, 0.4465];
const WHERE: &str = "give --data the folder of CIFAR-10's binary version, cifar-10-batches-bin";

/// Pixels and labels of all files.
pub(super) fn read(folder: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    let images = FILES.len() * IMAGES as usize;
    pixels.try_reserve_exact(images * PIXELS).context("no memory for the images")?;
    for name in FILES {
        let path = folder.join(name);
        for (place, record) in records(&path)?.chunks_exact(RECORD).enumerate() {
            let Some((&label, image)) = record.split_first() else { continue };
            if u32::from(label) >= CLASSES {
                bail!("{}: image {place} is of class {label}, and there are 0 to 9; {WHERE}", path.display());
            }
            labels.push(label);
            pixels.extend_from_slice(image);
        }
    }
    check(&pixels, &labels)
        .with_context(|| format!("the files in {} are not CIFAR-10's; {WHERE}", folder.display()))?;
    Ok((pixels, labels))
}

/// A file, whose size is right.
fn records(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let mut file = files::open(path).with_context(|| format!("cannot open {shown}; {WHERE}"))?;
    let size = file.metadata().with_context(|| format!("cannot ask for the size of {shown}"))?.len();
    let expected = RECORD as u64 * u64::from(IMAGES);
    ensure!(size == expected, "{shown} has {size} bytes, not {expected}; fetch it again, or {WHERE}");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    ensure!(bytes.len() as u64 == expected, "{shown} changed while it was read; try again");
    Ok(bytes)
}

/// Refuses what is not CIFAR-10, by what is known of it as a whole.
fn check(pixels: &[u8], labels: &[u8]) -> Result<()> {
    for class in 0..CLASSES as u8 {
        let count = labels.iter().filter(|label| **label == class).count();
        ensure!(count == OF_A_CLASS, "there are {count} images of class {class}, not {OF_A_CLASS}");
    }
    for (colour, expected) in MEANS.into_iter().enumerate() {
        let planes = pixels.chunks_exact(SIDE * SIDE).skip(colour).step_by(MEANS.len());
        let sum: u64 = planes.flatten().map(|byte| u64::from(*byte)).sum();
        let mean = sum as f64 / 255.0 / (labels.len() * SIDE * SIDE) as f64;
        ensure!((mean - expected).abs() < 1e-4, "the mean of colour {colour} is {mean:.4} and not {expected}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Files of the right size and classes, of which each colour has its mean.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; RECORD * IMAGES as usize];
        for (place, record) in bytes.chunks_exact_mut(RECORD).enumerate() {
            record[0] = (place % 10) as u8;
            for (colour, plane) in record[1..].chunks_exact_mut(SIDE * SIDE).enumerate() {
                // Of a thousand images as many have the next byte as the mean asks for.
                let thousandths = (MEANS[colour] * 255_000.0) as usize;
                plane.fill((thousandths / 1000 + usize::from(place % 1000 < thousandths % 1000)) as u8);
            }
        }
        for name in FILES {
            fs::write(folder.path().join(name), &bytes).unwrap();
        }
        folder
    }

    fn refusal(folder: &Path) -> String {
        format!("{:#}", read(folder).unwrap_err())
    }

    #[test]
    fn whole_files_are_read_in_order_and_altered_ones_refused() {
        let folder = folder();
        let (pixels, labels) = read(folder.path()).unwrap();
        assert_eq!((pixels.len(), labels.len()), (50_000 * 3072, 50_000));
        assert_eq!((labels[13], pixels[0], pixels[1024], pixels[49_999 * 3072 + 2048]), (3, 126, 123, 113));

        let file = fs::OpenOptions::new().write(true).open(folder.path().join(FILES[1])).unwrap();
        let label = |label: u8| {
            file.write_all_at(&[label], 3 * RECORD as u64).unwrap();
            refusal(folder.path())
        };
        let message = label(77);
        assert!(message.contains("data_batch_2.bin: image 3 is of class 77"), "{message}");
        let message = label(4);
        assert!(message.contains("4999 images of class 3, not 5000"), "{message}");
        file.write_all_at(&[3], 3 * RECORD as u64).unwrap();
        (0..50).for_each(|image| file.write_all_at(&[255; PIXELS], image * RECORD as u64 + 1).unwrap());
        let message = refusal(folder.path());
        assert!(message.contains("the mean of colour 0 is 0.4919 and not 0.4914"), "{message}");
    }

    #[test]
    fn a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&folder.path().join(FILES[0]), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let message = refusal(folder.path());
        assert!(message.contains("data_batch_1.bin") && message.contains("a named pipe"), "{message}");
    }

    #[test]
    fn missing_and_truncated_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let message = refusal(folder.path());
        assert!(message.contains("cannot open") && message.contains("data_batch_1.bin"), "{message}");
        fs::write(folder.path().join(FILES[0]), [0; 100]).unwrap();
        let message = refusal(folder.path());
        assert!(message.contains("data_batch_1.bin has 100 bytes, not 30730000"), "{message}");
    }
}
