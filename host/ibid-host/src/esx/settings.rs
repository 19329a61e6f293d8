//! `esxcli system settings advanced` and `esxcfg-advcfg`: two command lines for the same settings.

use super::record::{Formatter, Record};
use crate::failure::Failure;
use clap::{Args, Subcommand};
use esxi_host::{EsxiHost, Setting, SettingError, Settings};

/// `esxcli system settings advanced`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Advanced {
    /// List advanced settings
    List(ListArgs),
    /// Change an advanced setting
    Set(SetArgs),
}

/// Options of `list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Path of the only setting to list
    #[arg(short, long, value_name = "PATH")]
    option: Option<String>,
    /// List only settings below this path
    #[arg(short, long, value_name = "PATH", conflicts_with = "option")]
    tree: Option<String>,
    /// List only settings that differ from their default
    #[arg(short, long)]
    delta: bool,
}

/// Options of `set`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SetArgs {
    /// Path of the setting
    #[arg(short, long, value_name = "PATH")]
    option: String,
    /// New value
    #[arg(short, long, value_name = "NUMBER", required_unless_present = "default", allow_negative_numbers = true)]
    int_value: Option<i64>,
    /// Restore the default
    #[arg(short, long, conflicts_with = "int_value")]
    default: bool,
}

/// `esxcfg-advcfg`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdvcfgArgs {
    /// Path of the setting to print
    #[arg(short, long, value_name = "PATH", conflicts_with = "set", required_unless_present_any = ["set", "default"])]
    get: Option<String>,
    /// New value and path of the setting to change
    #[arg(short, long, num_args = 2, value_names = ["VALUE", "PATH"], allow_negative_numbers = true)]
    set: Vec<String>,
    /// Path of the setting to restore to its default
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["get", "set"])]
    default: Option<String>,
}

/// Runs `esxcli system settings advanced` and returns its output.
pub(crate) fn advanced(host: &EsxiHost, verb: &Advanced, formatter: Formatter) -> Result<String, Failure> {
    match verb {
        Advanced::List(args) => Ok(formatter.print(&list(host.settings(), args)?)),
        Advanced::Set(args) => {
            let setting = Setting::find(&args.option).map_err(unknown)?;
            let value = args.int_value.unwrap_or(setting.definition().default);
            host.set(setting, value)?;
            Ok(String::new())
        }
    }
}

fn list(settings: &Settings, args: &ListArgs) -> Result<Vec<Record>, Failure> {
    let one = args.option.as_deref().map(Setting::find).transpose().map_err(unknown)?;
    let below = |setting: &Setting| {
        let tree = args.tree.as_deref().map(|tree| format!("{}/", tree.trim_end_matches('/')).to_lowercase());
        tree.is_none_or(|tree| setting.definition().path.to_lowercase().starts_with(&tree))
    };
    let differs = |setting: &Setting| !args.delta || settings.get(*setting) != setting.definition().default;
    let wanted = |setting: &Setting| one.is_none_or(|one| one == *setting) && below(setting) && differs(setting);
    Ok(Setting::ALL.into_iter().filter(wanted).map(|setting| describe(settings, setting)).collect())
}

/// Formats a setting with the fields of ESXi. The string fields are empty because all settings are
/// numbers.
fn describe(settings: &Settings, setting: Setting) -> Record {
    let definition = setting.definition();
    Record::default()
        .with("Path", definition.path)
        .with("Type", "integer")
        .with("Int Value", settings.get(setting))
        .with("Default Int Value", definition.default)
        .with("Min Value", definition.min)
        .with("Max Value", definition.max)
        .with("String Value", "")
        .with("Default String Value", "")
        .with("Valid Characters", "")
        .with("Description", definition.description)
}

/// Runs `esxcfg-advcfg` and returns its output.
pub(crate) fn advcfg(host: &EsxiHost, args: &AdvcfgArgs) -> Result<String, Failure> {
    let (path, value) = match (&args.get, &args.default, args.set.as_slice()) {
        (Some(path), ..) => (path, None),
        (_, Some(path), _) => (path, Some(Setting::find(path).map_err(unknown)?.definition().default)),
        (.., [value, path]) => {
            let number = value.parse().map_err(|_| Failure::usage(format!("'{value}' is not a number"), ADVCFG))?;
            (path, Some(number))
        }
        _ => return Err(Failure::usage("no action given", ADVCFG)),
    };
    let setting = Setting::find(path).map_err(unknown)?;
    if let Some(value) = value {
        host.set(setting, value)?;
    }
    Ok(format!("Value of {} is {}\n", setting.definition().name(), host.settings().get(setting)))
}

const ADVCFG: &str = "use `esxcfg-advcfg -g PATH` or `esxcfg-advcfg -s VALUE PATH`";

fn unknown(error: SettingError) -> Failure {
    Failure::usage(error.to_string(), "run `ibid-host esxcli system settings advanced list` to list all settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> EsxiHost {
        EsxiHost::transient("esx01").unwrap()
    }

    fn show(host: &EsxiHost, option: Option<&str>, tree: Option<&str>, delta: bool) -> String {
        let args = ListArgs { option: option.map(str::to_owned), tree: tree.map(str::to_owned), delta };
        advanced(host, &Advanced::List(args), Formatter::Text).unwrap()
    }

    #[test]
    fn setting_has_esxi_output() {
        let text = show(&host(), Some("/VMFS3/HardwareAcceleratedLocking"), None, false);
        assert_eq!(
            text,
            concat!(
                "   Path: /VMFS3/HardwareAcceleratedLocking\n",
                "   Type: integer\n",
                "   Int Value: 1\n",
                "   Default Int Value: 1\n",
                "   Min Value: 0\n",
                "   Max Value: 1\n",
                "   String Value: \n",
                "   Default String Value: \n",
                "   Valid Characters: \n",
                "   Description: Enable hardware accelerated VMFS locking\n",
            )
        );
    }

    #[test]
    fn published_settings_have_their_defaults() {
        let host = host();
        for (path, default, max) in [
            ("/DataMover/HardwareAcceleratedMove", 1, 1),
            ("/DataMover/HardwareAcceleratedInit", 1, 1),
            ("/VMFS3/HardwareAcceleratedLocking", 1, 1),
            ("/VMFS3/useATSForHBOnVMFS5", 1, 1),
            ("/VMFS3/EnableBlockDelete", 0, 1),
            ("/DataMover/MaxHWTransferSize", 4096, 16_384),
        ] {
            let text = show(&host, Some(path), None, false);
            let line = |line: &str| text.lines().any(|other| other == line);
            assert!(line(&format!("   Int Value: {default}")), "{path}");
            assert!(
                line(&format!("   Default Int Value: {default}")) && line(&format!("   Max Value: {max}")),
                "{path}"
            );
        }
    }

    #[test]
    fn changed_setting_is_listed_and_can_be_reset() {
        let host = host();
        let set = |int_value, default| {
            let option = "/VMFS3/enableblockdelete".to_owned();
            advanced(&host, &Advanced::Set(SetArgs { option, int_value, default }), Formatter::Text).map(drop)
        };
        assert_eq!(show(&host, None, None, true), "");
        set(Some(1), false).unwrap();
        assert!(show(&host, None, None, true).starts_with("   Path: /VMFS3/EnableBlockDelete\n"));
        set(None, true).unwrap();
        assert_eq!(show(&host, None, None, true), "");
        assert!(set(Some(2), false).is_err());
        assert_eq!(show(&host, None, Some("/DataMover"), false).matches("Path: /DataMover/").count(), 3);
    }

    fn cfg(host: &EsxiHost, get: Option<&str>, set: &[&str]) -> Result<String, Failure> {
        let owned = |text: &&str| (*text).to_owned();
        advcfg(host, &AdvcfgArgs { get: get.as_ref().map(owned), set: set.iter().map(owned).collect(), default: None })
    }

    #[test]
    fn advcfg_has_esxi_output() {
        let host = host();
        let path = "/DataMover/MaxHWTransferSize";
        assert_eq!(cfg(&host, Some(path), &[]).unwrap(), "Value of MaxHWTransferSize is 4096\n");
        assert_eq!(cfg(&host, None, &["16384", path]).unwrap(), "Value of MaxHWTransferSize is 16384\n");
        assert_eq!(cfg(&host, Some(path), &[]).unwrap(), "Value of MaxHWTransferSize is 16384\n");
        for wrong in [["16385", path], ["x", path], ["1", "/No/Such"]] {
            assert!(cfg(&host, None, &wrong).is_err(), "{wrong:?}");
        }
    }
}
