//! Where the power comes from, as the kernel tells it: one folder per supply.

use std::fs;
use std::path::Path;

use super::Power;

/// Where Linux lists the supplies.
pub(crate) const ROOT: &str = "/sys/class/power_supply";

/// Reads the supplies under `root`. A machine that lists none, or none that can be read, runs on mains: it has no battery
/// to spare.
pub(crate) fn read(root: &Path) -> Power {
    let Ok(supplies) = fs::read_dir(root) else {
        return Power::Mains;
    };
    let (mut discharging, mut has_battery, mut has_mains) = (false, false, false);
    for supply in supplies.flatten() {
        let field = |name: &str| {
            let text = fs::read_to_string(supply.path().join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        // The battery of a mouse or a headset feeds nothing here.
        if field("scope") == "Device" {
            continue;
        }
        match field("type").as_str() {
            "Mains" | "USB" | "Wireless" => {
                if field("online") == "1" {
                    return Power::Mains;
                }
                has_mains = true;
            }
            "Battery" | "UPS" => {
                has_battery = true;
                discharging |= field("status") == "Discharging";
            }
            _ => {}
        }
    }
    if discharging || (has_battery && has_mains) {
        Power::Battery
    } else {
        Power::Mains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(supplies: &[(&str, &[(&str, &str)])]) -> Power {
        let root = tempfile::tempdir().unwrap();
        for (name, fields) in supplies {
            let dir = root.path().join(name);
            fs::create_dir(&dir).unwrap();
            for (field, value) in *fields {
                fs::write(dir.join(field), format!("{value}\n")).unwrap();
            }
        }
        read(root.path())
    }

    #[test]
    fn a_laptop_is_on_mains_with_its_plug_in_and_on_battery_without() {
        let battery = |status| ("BAT0", [("type", "Battery"), ("status", status)]);
        let plug = |online| ("AC", [("type", "Mains"), ("online", online)]);
        for (online, status, power) in [
            ("1", "Charging", Power::Mains),
            ("1", "Discharging", Power::Mains),
            ("0", "Discharging", Power::Battery),
            ("0", "Not charging", Power::Battery),
        ] {
            let (bat, bat_fields) = battery(status);
            let (ac, ac_fields) = plug(online);
            assert_eq!(
                machine(&[(bat, &bat_fields), (ac, &ac_fields)]),
                power,
                "{online} {status}"
            );
        }
    }

    #[test]
    fn a_machine_without_a_battery_is_on_mains_and_the_battery_of_a_mouse_is_not_one() {
        assert_eq!(machine(&[]), Power::Mains);
        assert_eq!(read(Path::new("/nonexistent")), Power::Mains);
        let mouse = [
            ("type", "Battery"),
            ("scope", "Device"),
            ("status", "Discharging"),
        ];
        assert_eq!(machine(&[("hid-mouse", &mouse)]), Power::Mains);
    }

    #[test]
    fn one_of_several_plugs_is_enough() {
        let battery = [("type", "Battery"), ("status", "Discharging")];
        let off = [("type", "Mains"), ("online", "0")];
        let on = [("type", "USB"), ("online", "1")];
        assert_eq!(
            machine(&[("BAT0", &battery), ("AC", &off), ("usb", &on)]),
            Power::Mains
        );
    }
}
