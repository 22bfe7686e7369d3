use super::*;

#[test]
fn a_counter_that_stepped_back_is_told_in_the_ledger_of_its_column_alone() {
    let proc = tempfile::tempdir().unwrap();
    let journal = Journal::create(&proc.path().join("journal")).unwrap();
    let mut host = HostProbe::new(proc.path(), proc.path(), KernelUnits::of_this_kernel());
    for (t_ns, iowait, disk) in [(0, 7, 10), (1, 5, 4), (2, 9, 4)] {
        std::fs::write(proc.path().join("stat"), format!("cpu  1 2 3 4 {iowait} 0 0 0\nctxt 5\n")).unwrap();
        let disk = format!("8 0 sda 1 0 {disk} 0 1 0 20 0 0 0 0\n");
        std::fs::write(proc.path().join("diskstats"), disk).unwrap();
        host.sample(t_ns, &journal);
    }
    let coverage = host.coverage();
    let told = |metric: &str| coverage.iter().find(|entry| entry.metric == metric).unwrap();
    assert_eq!(told("host.cpu").state, CoverageState::Measured);
    assert_eq!(told("host.cpu_iowait_ns").state, CoverageState::Lost);
    assert!(told("host.cpu_iowait_ns").reason.contains("below an earlier reading 1 times"));
    assert!(told("host.disk_read_bytes").reason.contains("below an earlier reading 2 times"));
    assert_eq!(told("host.disk_written_bytes").state, CoverageState::Measured);
    assert!(!coverage.iter().any(|entry| entry.metric == "host.cpu_user_ns"));
}

#[test]
fn the_first_and_the_last_sample_have_every_core_of_a_large_machine() {
    let folder = tempfile::tempdir().unwrap();
    let cores: String = (0..40).map(|core| format!("cpu{core} 1 2 3 4\n")).collect();
    std::fs::write(folder.path().join("stat"), format!("cpu  1 2 3 4\n{cores}")).unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::create(&path).unwrap();
    let mut host = HostProbe::new(folder.path(), folder.path(), KernelUnits::of_this_kernel());
    host.sample(0, &journal);
    host.sample(SECOND_NS / 10, &journal);
    host.sample_last(SECOND_NS / 5, &journal);
    journal.flush();
    let mut times = Vec::new();
    crate::trace::journal::read(&path, |row| {
        if let crate::trace::tables::Row::Core(core) = row {
            times.push(core.t_ns);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(times, [vec![0; 40], vec![SECOND_NS / 5; 40]].concat());
}
