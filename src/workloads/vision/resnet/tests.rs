//! Expected values are those of torchvision 0.26.0 with PyTorch 2.11.0 on a CPU.

use super::*;

const FLOAT: (Kind, Device) = (Kind::Float, Device::Cpu);

/// `count` values between -0.5 and 0.5 that look drawn, the same in any language: a hash of place and stream.
fn values(count: usize, stream: u64) -> Vec<f64> {
    let value = |place: u64| {
        let mut hash = (place * 2_654_435_761 + stream * 40_503 + 12_345) & 0xffff_ffff;
        hash ^= hash >> 15;
        hash = (hash * 2_246_822_519) & 0xffff_ffff;
        hash ^= hash >> 13;
        hash as f64 / 4_294_967_296.0 - 0.5
    };
    (0..count as u64).map(value).collect()
}

/// The network with weights that do not depend on anybody's random numbers.
fn with_known_weights() -> Resnet50 {
    let network = Resnet50::new(Device::Cpu).unwrap();
    let _guard = tch::no_grad_guard();
    // A convolution, weight and bias of its norm, and so on; last the output's weight and bias.
    let is_weight_of_norm = |place: usize| place % 3 == 1 && place < 159;
    for (place, parameter) in network.parameters().into_iter().enumerate() {
        let shape = parameter.size();
        let fan_in = shape.iter().skip(1).product::<i64>() as f64;
        let known = Tensor::from_slice(&values(parameter.numel(), place as u64)).view(shape.as_slice());
        let known = match shape.len() {
            4 => known * (2.0 * (3.0 / fan_in).sqrt() * 1.2),
            2 => known * (2.0 / fan_in.sqrt()),
            _ if is_weight_of_norm(place) => known * 0.5 + 1.0,
            _ => known * 0.2,
        };
        parameter.shallow_clone().copy_(&known);
    }
    network
}

fn assert_scores(scores: &Tensor, expected: &[[f64; 4]; 4], tolerance: f64) {
    for (image, expected) in (0..).zip(expected) {
        for (class, expected) in [0, 1, 499, 999].into_iter().zip(expected) {
            let score = scores.double_value(&[image, class]);
            assert!((score - expected).abs() < tolerance, "image {image}, class {class}: {score}, not {expected}");
        }
    }
}

#[test]
fn it_has_as_many_parameters_as_in_torchvision() {
    let network = Resnet50::new(Device::Cpu).unwrap();
    let parameters = network.parameters();
    assert_eq!(parameters.iter().map(|parameter| parameter.numel()).sum::<usize>(), 25_557_032);
    assert_eq!(parameters.len(), 161);
    assert!(parameters.iter().all(|parameter| parameter.requires_grad()));
}

#[test]
fn scores_are_those_of_torchvision_with_the_same_weights() {
    let network = with_known_weights();
    let images = Tensor::from_slice(&values(4 * 3 * 32 * 32, 1000)).view([4, 3, 32, 32]) * 4.0;
    let images = images.to_kind(Kind::Float);
    let _guard = tch::no_grad_guard();

    let untouched = network.scores(&images, Kind::Float, false).unwrap();
    assert_scores(
        &untouched,
        &[
            [5.922_986, -2.339_228, -0.451_031, -7.564_209],
            [5.942_894, -3.472_815, -0.419_969, -8.481_396],
            [6.193_090, -3.161_494, -0.764_959, -7.854_426],
            [6.002_537, -2.270_200, -1.600_549, -7.623_834],
        ],
        1e-3,
    );
    // Each of the last stage's channels is normalised over four values, which magnifies what rounding differs by.
    let training = network.forward(&images, Kind::Float).unwrap();
    assert_scores(
        &training,
        &[
            [1.277_227, -1.468_677, 0.007_756, -0.246_934],
            [1.702_910, 0.265_815, -0.973_782, -0.814_796],
            [1.010_431, -1.241_967, 0.625_757, -1.621_605],
            [0.011_191, -1.574_178, -0.074_607, -0.563_156],
        ],
        5e-3,
    );
    // What the running means and variances learnt from that batch.
    let after = network.scores(&images, Kind::Float, false).unwrap();
    assert_scores(
        &after,
        &[
            [4.139_957, -1.174_726, 0.173_652, -5.268_068],
            [4.518_744, -2.083_517, 0.437_032, -6.182_853],
            [4.204_500, -1.834_196, -0.115_884, -5.660_443],
            [4.403_602, -0.710_161, -0.927_815, -5.052_806],
        ],
        1e-3,
    );
}

#[test]
fn each_layer_is_drawn_as_torchvision_draws_it() {
    let network = Resnet50::new(Device::Cpu).unwrap();
    let moments = |tensor: &Tensor| {
        let tensor = tensor.to_kind(Kind::Double);
        (tensor.mean(Kind::Double).double_value(&[]), tensor.std(true).double_value(&[]))
    };
    for (place, unit) in network.units().enumerate() {
        let weight = &unit.convolution.weight;
        let &[outputs, _, height, width] = weight.size().as_slice() else { panic!("{weight:?}") };
        // Kaiming, normal, fan-out, ReLU: a standard deviation of √(2 / (outputs · height · width)).
        let (mean, spread) = moments(weight);
        let expected = (2.0 / (outputs * height * width) as f64).sqrt();
        let count = weight.numel() as f64;
        // Five standard errors; a normal sample's standard deviation varies by 1/√(2n) of itself.
        assert!(mean.abs() < 5.0 * expected / count.sqrt(), "convolution {place}: mean {mean}");
        assert!((spread / expected - 1.0).abs() < 5.0 / (2.0 * count).sqrt(), "convolution {place}: {spread}");
        // A normal draw beyond √3 deviations, which an even one of the same spread never has.
        assert!(weight.abs().max().double_value(&[]) > 2.5 * expected, "convolution {place}");

        let channels = [outputs];
        assert_eq!(unit.norm.weight, Tensor::ones(channels, FLOAT));
        assert_eq!(unit.norm.bias, Tensor::zeros(channels, FLOAT));
        assert_eq!(unit.norm.running_mean, Tensor::zeros(channels, FLOAT));
        assert_eq!(unit.norm.running_variance, Tensor::ones(channels, FLOAT));
    }
    // nn.Linear: even between ±1/√2048.
    let bound = 2048.0_f64.powf(-0.5);
    for tensor in [&network.output.weight, &network.output.bias] {
        let (mean, spread) = moments(tensor);
        let (expected, count) = (bound / 3.0_f64.sqrt(), tensor.numel() as f64);
        assert!(mean.abs() < 5.0 * expected / count.sqrt(), "output: mean {mean}");
        assert!((spread / expected - 1.0).abs() < 5.0 * (0.2 / count).sqrt(), "output: {spread}");
        assert!(tensor.abs().max().double_value(&[]) <= bound);
    }
}
