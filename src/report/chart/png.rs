//! A drawing as a picture: rasterised with the bundled font, and stored with as many colours as a palette holds.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use png::{BitDepth, ColorType, Compression, Encoder, Filter};
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::font;

/// Device pixels to a CSS pixel, for sharp text on dense screens.
const DENSITY: f32 = 2.0;

/// What an index of eight bits can tell apart.
const MOST_COLOURS: usize = 256;

type Rgb = [u8; 3];

/// Draws an SVG on white.
///
/// # Errors
/// It is no SVG that can be drawn.
pub(super) fn rasterise(svg: &str) -> Result<Vec<u8>> {
    let options = Options { fontdb: fonts()?, ..Options::default() };
    let tree = Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(DENSITY).context("no size")?;
    let mut picture = Pixmap::new(size.width(), size.height()).context("no room for the picture")?;
    picture.fill(Color::WHITE);
    resvg::render(&tree, Transform::from_scale(DENSITY, DENSITY), &mut picture.as_mut());
    // Nothing is transparent on white.
    let pixels: Vec<Rgb> = picture.pixels().iter().map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
    encode(size.width(), size.height(), &pixels)
}

/// The bundled font, read once.
fn fonts() -> Result<Arc<fontdb::Database>> {
    static FONTS: OnceLock<Option<Arc<fontdb::Database>>> = OnceLock::new();
    let read = || {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_source(fontdb::Source::Binary(Arc::new(font::FONT)));
        let family = fonts.faces().next()?.families.first()?.0.clone();
        fonts.set_sans_serif_family(family);
        Some(Arc::new(fonts))
    };
    FONTS.get_or_init(read).clone().context("the bundled font cannot be read")
}

fn encode(width: u32, height: u32, pixels: &[Rgb]) -> Result<Vec<u8>> {
    let palette = Palette::of(pixels);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette(palette.colours.concat());
    // Neighbouring indices say nothing of each other's colours.
    encoder.set_filter(Filter::NoFilter);
    encoder.set_compression(Compression::Balanced);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&palette.indices(pixels))?;
    writer.finish()?;
    Ok(bytes)
}

/// The colours of a picture, and which stands for each that occurs.
struct Palette {
    colours: Vec<Rgb>,
    index: BTreeMap<Rgb, u8>,
}

impl Palette {
    /// The most frequent colours; the others, which are edges smoothed in passing, take the nearest of them.
    fn of(pixels: &[Rgb]) -> Self {
        let mut counts: BTreeMap<Rgb, usize> = BTreeMap::new();
        for run in pixels.chunk_by(|a, b| a == b) {
            *counts.entry(run[0]).or_default() += run.len();
        }
        let mut by_count: Vec<(Rgb, usize)> = counts.into_iter().collect();
        // Equally frequent ones by their values, so that the same picture has the same bytes.
        by_count.sort_by_key(|(colour, count)| (std::cmp::Reverse(*count), *colour));
        let colours: Vec<Rgb> = by_count.iter().take(MOST_COLOURS).map(|(colour, _)| *colour).collect();
        let index = by_count.iter().map(|(colour, _)| (*colour, nearest(&colours, *colour))).collect();
        Self { colours, index }
    }

    fn indices(&self, pixels: &[Rgb]) -> Vec<u8> {
        let of_run = |run: &[Rgb]| (self.index.get(&run[0]).copied().unwrap_or_default(), run.len());
        let runs = pixels.chunk_by(|a, b| a == b).map(of_run);
        runs.flat_map(|(index, len)| std::iter::repeat_n(index, len)).collect()
    }
}

fn nearest(colours: &[Rgb], to: Rgb) -> u8 {
    let distance =
        |colour: &Rgb| -> i32 { colour.iter().zip(to).map(|(a, b)| (i32::from(*a) - i32::from(b)).pow(2)).sum() };
    let nearest = colours.iter().enumerate().min_by_key(|(_, colour)| distance(colour));
    nearest.map_or(0, |(index, _)| u8::try_from(index).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<Rgb> {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(frame.color_type, ColorType::Rgb);
        pixels.as_chunks::<3>().0.to_vec()
    }

    #[test]
    fn a_picture_of_few_colours_keeps_every_one() {
        let pixels: Vec<Rgb> = (0..10_000_u32).map(|i| [(i % 256) as u8, 7, 255]).collect();
        assert_eq!(decoded(&encode(100, 100, &pixels).unwrap()), pixels);
    }

    #[test]
    fn rare_colours_beyond_a_palette_take_the_nearest_of_the_frequent_ones() {
        // 256 greys nine times each, and 200 that are one step off in blue, once each.
        let greys = (0..=255_u8).flat_map(|grey| [[grey; 3]; 9]);
        let rare = (10..210_u8).map(|grey| [grey, grey, grey + 1]);
        let pixels: Vec<Rgb> = greys.chain(rare).collect();
        let found = decoded(&encode(pixels.len() as u32, 1, &pixels).unwrap());
        assert_eq!(found[..256 * 9], pixels[..256 * 9]);
        for (found, pixel) in found.iter().zip(&pixels).skip(256 * 9) {
            assert_eq!(*found, [pixel[0]; 3]);
        }
    }

    #[test]
    fn a_drawing_has_the_same_bytes_each_time_and_white_where_nothing_is() {
        let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><circle cx="10" cy="10" r="8" fill="#0969da"/>
            <text x="22" y="15" font-family="sans-serif" font-size="12">训</text></svg>"##;
        let picture = rasterise(svg).unwrap();
        assert_eq!(picture, rasterise(svg).unwrap());
        let pixels = decoded(&picture);
        assert_eq!((pixels.len(), pixels[0], pixels[20 * 80 + 20]), (80 * 40, [255; 3], [0x09, 0x69, 0xda]));
        assert!(
            pixels[40..].as_chunks::<80>().0.iter().flat_map(|row| &row[..40]).any(|pixel| *pixel == [0; 3]),
            "text"
        );
    }
}
