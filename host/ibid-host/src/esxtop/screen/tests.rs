use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const BANNER: &str = "12:49:54am up 36 days  9:37, 2 worlds; CPU load average: 0.27, 0.31, 0.30";

fn screen() -> Screen {
    let mut screen = Screen::new(Selection::default(), 5.0);
    screen.rows = super::super::tests::rows();
    screen.paths = panel::tests::paths();
    screen.worlds = panel::tests::worlds();
    screen.banner = BANNER.to_owned();
    screen
}

fn press(screen: &mut Screen, keys: &str) -> Vec<Action> {
    keys.chars().map(|key| screen.press(if key == '\n' { Key::Enter } else { Key::Char(key) })).collect()
}

/// Returns the lines of a terminal of this width, without trailing spaces.
fn lines(screen: &Screen, width: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, 26)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    let mut lines: Vec<String> = (0..26).map(line).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[test]
fn device_screen_has_esxtop_layout() {
    let lines = lines(&screen(), 180);
    assert_eq!(
        lines,
        [
            BANNER,
            "",
            concat!(
                "DEVICE                               PATH/WORLD/PARTITION DQLEN WQLEN ACTV QUED   %USD  LOAD   CMDS/s",
                "  READS/s WRITES/s MBREAD/s MBWRTN/s DAVG/cmd KAVG/cmd GAVG/cmd QAVG/cmd",
            ),
            concat!(
                "naa.624a9370753d69fe46db318d00011014 -                      128     -   32   96  25.00  1.00   423.60",
                "   100.00   200.00     0.39    10.00     1.30     0.10     1.40     0.10",
            ),
        ]
    );
}

#[test]
fn keys_u_f_o_p_show_the_vaai_columns() {
    let mut screen = screen();
    press(&mut screen, "ufopbfgi\n");
    assert_eq!(
        lines(&screen, 220)[2..],
        [
            concat!(
                "DEVICE                               CLONE_RD CLONE_WR  CLONE_F MBC_RD/s MBC_WR/s      ATS ATSF",
                "     ZERO   ZERO_F MBZERO/s   DELETE DELETE_F  MBDEL/s CAVG/suc   CAVG/f AAVG/suc   AAVG/f  AVG/suc",
                "   ZAVG/f",
            ),
            concat!(
                "naa.624a9370753d69fe46db318d00011014       64       60        1   204.80   192.00     1010    8",
                "      532        0   106.40        7        2   140.00     2.00     0.50     2.00     0.50     2.00",
                "     0.00",
            ),
        ]
    );
}

#[test]
fn field_screen_lists_all_groups() {
    let mut screen = screen();
    press(&mut screen, "fo");
    let lines = lines(&screen, 80);
    assert_eq!(lines[2], "Current Field order: ABcdeFGhIjklmnOp");
    assert_eq!(
        lines[4..20],
        [
            "* A:  DEVICE = Device Name",
            "* B:  ID = Path/World/Partition Id",
            "  C:  NUM = Num of Objects",
            "  D:  SHARES = Shares",
            "  E:  BLKSZ = Block Size (bytes)",
            "* F:  QSTATS = Queue Stats",
            "* G:  IOSTATS = I/O Stats",
            "  H:  RESVSTATS = Reserve Stats",
            "* I:  LATSTATS/cmd = Overall Latency Stats (ms)",
            "  J:  LATSTATS/rd = Read Latency Stats (ms)",
            "  K:  LATSTATS/wr = Write Latency Stats (ms)",
            "  L:  ERRSTATS/s = Error Stats",
            "  M:  PAESTATS/s = PAE Stats",
            "  N:  SPLTSTATS/s = SPLIT Stats",
            "* O:  VAAISTATS= VAAI Stats",
            "  P:  VAAILATSTATS/cmd = VAAI Latency Stats (ms)",
        ]
    );
    assert_eq!(lines[21], "Toggle fields with a-p, any other key to return:");
    press(&mut screen, "\n");
    assert!(super::tests::lines(&screen, 200)[2].contains("CLONE_RD"));
}

#[test]
fn keys_do_what_help_states() {
    let mut screen = screen();
    assert_eq!(press(&mut screen, " u\nW"), [Action::Refresh, Action::Refresh, Action::Refresh, Action::Save]);
    assert_eq!(press(&mut screen, "s2.5\n").last(), Some(&Action::Nothing));
    assert_eq!(screen.delay, 2.5);
    press(&mut screen, "s0\n");
    assert_eq!((screen.delay, lines(&screen, 80)[1].as_str()), (2.5, "use 0.5 to 86400 seconds"));
    press(&mut screen, "s7");
    assert_eq!(lines(&screen, 80)[1], "Change delay from 2.5 second(s) to: 7");
    screen.press(Key::Backspace);
    screen.press(Key::Escape);
    assert_eq!(screen.delay, 2.5);
    press(&mut screen, "h");
    assert_eq!(lines(&screen, 80)[2], "esxtop of a simulated host: keys");
    press(&mut screen, "xp");
    let power = "a simulated host has no power states; the screens are u d c m v n i";
    assert_eq!(lines(&screen, 80)[1], power);
    assert_eq!((press(&mut screen, "q"), screen.press(Key::Interrupt)), (vec![Action::Quit], Action::Quit));
}

#[test]
fn keys_switch_between_screens() {
    let mut screen = screen();
    for (key, start, count) in [
        ("d", "ADAPTR", 3),
        ("c", "      ID NAME", 3),
        ("m", "      ID NAME", 3),
        ("v", "VMNAME", 2),
        ("n", "PORT-ID", 7),
        ("i", "VECTOR", 3),
        ("u", "DEVICE", 2),
    ] {
        assert_eq!(press(&mut screen, key), [Action::Refresh]);
        let lines = lines(&screen, 180);
        assert!(lines[2].starts_with(start) && lines.len() == 2 + count, "{key}: {lines:?}");
    }
    press(&mut screen, "dP7\n");
    assert_eq!(lines(&screen, 80)[1], "", "only devices have paths to show");
}

#[test]
fn key_p_shows_and_hides_paths_of_a_device() {
    let mut screen = screen();
    press(&mut screen, "Pd0001101");
    assert_eq!(lines(&screen, 80)[1], "Device to expand or roll up (a part of its name): d0001101");
    press(&mut screen, "\n");
    let shown = lines(&screen, 180);
    assert_eq!(shown.len(), 9, "heading, device, heading of the paths, and four paths");
    assert!(shown[5].starts_with("  vmhba64:C0:T0:L7"), "{}", shown[5]);
    press(&mut screen, "P1014\n");
    assert_eq!(lines(&screen, 180).len(), 4);
    press(&mut screen, "Pxyz\n");
    assert_eq!(lines(&screen, 80)[1], "there is no device 'xyz'");
}

#[test]
fn rows_are_sorted_and_limited() {
    let mut screen = screen();
    let mut busy = screen.rows[0].clone();
    (busy.device, busy.delta.reads, busy.delta.write_bytes) = ("naa.7".to_owned(), 9_999, 0);
    screen.rows.push(busy);
    let first = |screen: &Screen| lines(screen, 200)[3].split(' ').next().unwrap().to_owned();
    for (keys, name) in [
        ("r", "naa.7"),
        ("T", "naa.624a9370753d69fe46db318d00011014"),
        ("R", "naa.624a9370753d69fe46db318d00011014"),
        ("rN", "naa.624a9370753d69fe46db318d00011014"),
    ] {
        press(&mut screen, keys);
        assert_eq!(first(&screen), name, "{keys}");
    }
    press(&mut screen, "#1\n");
    assert_eq!(lines(&screen, 200).len(), 4);
    press(&mut screen, "#0\n");
    assert_eq!(lines(&screen, 200).len(), 5);
}
