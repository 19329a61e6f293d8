import { text } from '../text';
import { Icon } from './Icon';

interface FilterFieldProps {
  label: string;
  /** Shown in the empty field; the label by default. */
  hint?: string;
  value: string;
  change: (value: string) => void;
}

/** The field that filters a list; the key / moves to it. */
export function FilterField({ label, hint = label, value, change }: FilterFieldProps) {
  return (
    <div className="filter">
      <Icon name="search" />
      <input
        type="search"
        aria-label={label}
        placeholder={hint}
        value={value}
        onChange={(event) => change(event.currentTarget.value)}
        spellCheck={false}
        autoComplete="off"
      />
      <kbd>/</kbd>
    </div>
  );
}

interface DestroyedSwitchProps {
  isDestroyed: boolean;
  change: (isDestroyed: boolean) => void;
}

/** Shows the objects that serve, or those that wait for eradication. */
export function DestroyedSwitch({ isDestroyed, change }: DestroyedSwitchProps) {
  return (
    <div className="segments">
      <button type="button" aria-pressed={!isDestroyed} onClick={() => change(false)}>
        {text.volumes.present}
      </button>
      <button type="button" aria-pressed={isDestroyed} onClick={() => change(true)}>
        {text.volumes.destroyed}
      </button>
    </div>
  );
}
