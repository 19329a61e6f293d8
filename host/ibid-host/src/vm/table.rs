//! The list of virtual machines in the layout of `vim-cmd vmsvc/getallvms`.

use virtual_disk::VirtualMachine;

/// One line of the list.
pub(crate) struct Row([String; 5]);

impl Row {
    /// Returns the row of `machine`, which is on the datastore `label`.
    pub(crate) fn of(number: usize, label: &str, machine: &VirtualMachine) -> Self {
        let vmx = machine.vmx();
        Self([
            number.to_string(),
            machine.name().to_owned(),
            format!("[{label}] {}", machine.vmx_path()),
            format!("{}Guest", vmx.guest_os.replace('-', "_")),
            format!("vmx-{:02}", vmx.hardware_version),
        ])
    }
}

const HEADINGS: [&str; 5] = ["Vmid", "Name", "File", "Guest OS", "Version"];

/// Formats the table. Columns are separated by three spaces; the last one, Annotation, is always
/// empty.
pub(crate) fn render(rows: &[Row]) -> String {
    let cells = |row: [&str; 5]| row.map(|cell| cell.chars().count());
    let mut widths = HEADINGS.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(cells(row.0.each_ref().map(String::as_str))) {
            *width = (*width).max(cell);
        }
    }
    let line = |row: [&str; 5], last: &str| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}   {last}", cells.join("   ")).trim_end().to_owned() + "\n"
    };
    let mut text = line(HEADINGS, "Annotation");
    for row in rows {
        text += &line(row.0.each_ref().map(String::as_str), "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vm_list_has_vim_cmd_layout() {
        let row = |words: [&str; 5]| Row(words.map(str::to_owned));
        let rows = [
            row(["1", "AT_ESXI", "[datastore_050] AT_ESXI/AT_ESXI.vmx", "ubuntu64Guest", "vmx-11"]),
            row(["24", "web", "[ds1] web/web.vmx", "windows8srv_64Guest", "vmx-17"]),
        ];
        let golden = "\
Vmid   Name      File                                  Guest OS              Version   Annotation
1      AT_ESXI   [datastore_050] AT_ESXI/AT_ESXI.vmx   ubuntu64Guest         vmx-11
24     web       [ds1] web/web.vmx                     windows8srv_64Guest   vmx-17
";
        assert_eq!(render(&rows), golden);
        assert_eq!(render(&[]).lines().count(), 1);
    }
}
