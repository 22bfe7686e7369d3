//! Figures of GPUs, worked out by hand.

use super::*;
use crate::aggregate::testing::{SECOND, frame, record, ticks};
use crate::trace::tables;

fn measured(rows: impl IntoIterator<Item = tables::Gpu>) -> Figures {
    with_used(rows, None)
}

fn with_used(rows: impl IntoIterator<Item = tables::Gpu>, used: Option<Vec<u32>>) -> Figures {
    let mut figures = Figures::default();
    gpus(frame(rows), &RunRecord { gpus_used: used, ..record() }, &mut figures).unwrap();
    figures
}

/// GPU 0 idles at 100 W and has no energy counter; GPU 1 works for four of ten seconds and counts its energy.
fn two() -> Vec<tables::Gpu> {
    let row = |t_ns: i64, gpu: i64| {
        let works = gpu == 1 && t_ns < 4 * SECOND;
        tables::Gpu {
            t_ns,
            gpu,
            utilisation_ratio: Some(if works { 0.9 } else { 0.0 }),
            memory_used_bytes: Some(if works { 800 } else { 100 + gpu }),
            memory_own_bytes: Some(if works { 700 } else { 0 }),
            power_mw: Some(100_000),
            energy_mj: (gpu == 1).then_some(500 + t_ns * 200_000 / SECOND),
            temperature_celsius: Some(40 + gpu),
            ..tables::Gpu::default()
        }
    };
    ticks(SECOND / 2, 10 * SECOND).flat_map(|t| [row(t, 0), row(t, 1)]).collect()
}

#[test]
fn utilisation_is_that_of_the_gpus_that_the_run_used() {
    let figures = measured(two());
    // By hand: 0.9 for 4 s of 10 s.
    assert!((figures.values[&Metric::GpuUtilisation] - 0.36).abs() < 1e-9);
    let course = &figures.windows[&Quantity::GpuUtilisation(1)].windows();
    assert!((course[&3] - 0.9).abs() < 1e-9 && course[&4] == 0.0 && course.len() == 10, "{course:?}");
    assert!(figures.windows[&Quantity::GpuUtilisation(0)].windows().values().all(|share| *share == 0.0));
}

#[test]
fn utilisation_is_that_of_all_gpus_where_the_driver_cannot_tell_whose_memory_is_whose() {
    let rows = two().into_iter().map(|row| tables::Gpu { memory_own_bytes: None, ..row });
    let figures = measured(rows);
    assert!((figures.values[&Metric::GpuUtilisation] - 0.18).abs() < 1e-9);
    assert_eq!(figures.values.get(&Metric::GpuMemoryOwnPeak), None);
}

#[test]
fn energy_is_by_counter_else_by_power_and_of_the_gpus_that_the_run_used() {
    // By hand: 200 W by GPU 1's counter, 100 W by the trapezoid rule over GPU 0's power, over 10 s.
    for (used, joules) in [(None, 2000.0), (Some(vec![0, 1]), 3000.0)] {
        assert_eq!(with_used(two(), used).values[&Metric::GpuEnergy], joules);
    }
    let nobodys = two().into_iter().map(|row| tables::Gpu { memory_own_bytes: None, ..row });
    assert_eq!(measured(nobodys).values[&Metric::GpuEnergy], 3000.0);
}

#[test]
fn gpus_that_the_run_did_not_use_stand_apart() {
    let figures = measured(two());
    assert_eq!(figures.values[&Metric::GpuUtilisationUnused], 0.0);
    // The record knows of a process whose memory the driver does not tell.
    let figures = with_used(two(), Some(vec![0, 1]));
    assert!((figures.values[&Metric::GpuUtilisation] - 0.18).abs() < 1e-9);
    assert_eq!(figures.values.get(&Metric::GpuUtilisationUnused), None);
}

#[test]
fn a_sampled_course_has_the_mean_of_the_same_course_polled() {
    // A course of 0.8 for 4 s of 10 s, told in the two ways: with every reading of the sensors, or in rows of its own,
    // which come after the readings of the same time.
    let share = |t_ns: i64| Some(if t_ns < 4 * SECOND { 0.8 } else { 0.0 });
    let sensors = |t_ns: i64| tables::Gpu { t_ns, power_mw: Some(1), ..tables::Gpu::default() };
    let polled =
        ticks(SECOND / 10, 10 * SECOND).map(|t_ns| tables::Gpu { utilisation_ratio: share(t_ns), ..sensors(t_ns) });
    let sampled = ticks(SECOND / 2, 10 * SECOND).flat_map(|t_ns| {
        let samples = ticks(SECOND / 6, SECOND / 2).skip(1).map(move |ago| t_ns - SECOND / 2 + ago);
        let sample = |t_ns| tables::Gpu { t_ns, utilisation_ratio: share(t_ns), ..tables::Gpu::default() };
        std::iter::once(sensors(t_ns)).chain(samples.filter(|t_ns| *t_ns >= 0).map(sample)).collect::<Vec<_>>()
    });
    // A sample holds until the next one, a sixth of a second later.
    let means = [measured(polled), measured(sampled)].map(|figures| figures.values[&Metric::GpuUtilisation]);
    assert!((means[0] - 0.32).abs() < 1e-9 && (means[1] - 0.32).abs() < 0.015, "{means:?}");
}

/// One GPU at 1 s, 2 s, … after a first reading.
fn one(change: impl Fn(&mut tables::Gpu, i64)) -> BTreeMap<Metric, f64> {
    let row = |t_ns: i64| {
        let mut row = tables::Gpu { t_ns, ..tables::Gpu::default() };
        change(&mut row, t_ns / SECOND);
        row
    };
    measured(ticks(SECOND, 10 * SECOND).map(row)).values
}

#[test]
fn memory_is_told_before_above_and_by_whom() {
    let values = one(|row, second| {
        row.memory_used_bytes = Some(if second == 0 { 400 } else { 1000 + second });
        row.memory_own_bytes = Some(if second == 0 { 0 } else { 500 });
        row.memory_others_bytes = Some(300);
    });
    let metrics = [
        Metric::GpuMemoryBefore,
        Metric::GpuMemoryPeak,
        Metric::GpuMemoryRise,
        Metric::GpuMemoryOwnPeak,
        Metric::GpuMemoryOthersPeak,
        Metric::GpuMemoryUnattributed,
    ];
    assert_eq!(metrics.map(|metric| values[&metric]), [400.0, 1010.0, 610.0, 500.0, 300.0, 210.0]);
}

#[test]
fn why_clocks_were_held_down_is_a_share_of_time() {
    // Idle, then 2 s of power cap, 3 s of heat that the hardware answers too, and a bit without a name.
    let values = one(|row, second| {
        row.throttle_reasons = Some([1, 4, 4, 0x48, 0x48, 0x48, 1 << 40, 0, 0, 0, 0][second as usize]);
    });
    let metrics = [Metric::GpuPowerCapped, Metric::GpuHeatCapped, Metric::GpuHardwareSlowdown, Metric::GpuClocksSet];
    for (metric, share) in metrics.into_iter().zip([0.2, 0.3, 0.3, 0.0]) {
        assert!((values[&metric] - share).abs() < 1e-9, "{metric:?}: {}", values[&metric]);
    }
}

#[test]
fn power_is_a_mean_and_instant_power_a_peak_and_errors_are_counted() {
    let values = one(|row, second| {
        row.power_mw = Some(if second < 5 { 100_000 } else { 300_000 });
        row.power_instant_mw = (second == 6).then_some(420_000);
        row.ecc_uncorrected_errors = Some(second / 4);
    });
    assert_eq!((values[&Metric::GpuPower], values[&Metric::GpuPowerInstantMax]), (200.0, 420.0));
    assert_eq!(values[&Metric::GpuEccUncorrected], 2.0);
    assert_eq!(values.get(&Metric::GpuEccCorrected), None);
}

#[test]
fn an_instance_is_no_gpu_of_its_own() {
    let row = |t_ns: i64, mig_instance: Option<i64>, bytes: i64| tables::Gpu {
        t_ns,
        mig_instance,
        memory_used_bytes: Some(bytes),
        memory_own_bytes: mig_instance.map(|_| 7),
        ..tables::Gpu::default()
    };
    let figures = measured(ticks(SECOND, 5 * SECOND).flat_map(|t| [row(t, None, 100), row(t, Some(2), 40)]));
    assert_eq!(figures.values[&Metric::GpuMemoryPeak], 100.0);
    assert_eq!(figures.values[&Metric::GpuMemoryOwnPeak], 7.0);
    assert!(figures.windows[&Quantity::GpuInstanceMemory(0, 2)].windows().values().all(|bytes| *bytes == 40.0));
}

#[test]
fn peaks_are_of_any_one_gpu() {
    let values = measured(two()).values;
    let peaks = [Metric::GpuMemoryPeak, Metric::GpuMemoryOwnPeak, Metric::GpuTemperatureMax];
    assert_eq!(peaks.map(|metric| values[&metric]), [800.0, 700.0, 41.0]);
}

#[test]
fn a_reading_that_is_no_number_is_as_good_as_none() {
    let mut rows = two();
    rows[7].utilisation_ratio = Some(f64::NAN);
    assert!((measured(rows).values[&Metric::GpuUtilisation] - 0.36).abs() < 1e-9);
}

#[test]
fn a_gpu_that_tells_nothing_has_no_figures() {
    let figures = measured(ticks(SECOND, 5 * SECOND).map(|t_ns| tables::Gpu { t_ns, ..tables::Gpu::default() }));
    assert!(figures.values.is_empty() && figures.windows.is_empty(), "{figures:?}");
}

#[test]
fn sensors_have_courses_in_plain_units_and_what_holds_clocks_down_by_load_is_one_of_them() {
    // Held down by the power limit for two seconds, then by a setting alone, which is nobody's surprise.
    let row = |t_ns: i64| tables::Gpu {
        t_ns,
        gpu: 2,
        power_mw: Some(350_500),
        temperature_celsius: Some(61),
        sm_clock_mhz: Some(if t_ns < 2 * SECOND { 1_500 } else { 2_000 }),
        throttle_reasons: Some(if t_ns < 2 * SECOND { 0x4 } else { 0x2 }),
        ..tables::Gpu::default()
    };
    let figures = measured(ticks(SECOND / 2, 4 * SECOND).map(row));
    let mut courses = crate::aggregate::courses::Courses::default();
    courses.add(&figures.windows);
    let courses = courses.finish();
    let values = |quantity| -> Vec<f64> {
        let course = courses.iter().find(|course| course.quantity == quantity);
        course.iter().flat_map(|course| &course.points).map(|point| point.mean).collect()
    };
    assert_eq!(values(Quantity::GpuPower(2)), [350.5; 4]);
    assert_eq!(values(Quantity::GpuTemperature(2)), [61.0; 4]);
    assert_eq!(values(Quantity::GpuSmClock(2)), [1500.0, 1500.0, 2000.0, 2000.0]);
    assert_eq!(values(Quantity::GpuHeldDown(2)), [1.0, 1.0, 0.0, 0.0]);
    assert!(values(Quantity::GpuMemoryClock(2)).is_empty());
}
