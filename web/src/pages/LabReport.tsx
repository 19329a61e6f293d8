/** A report of the lab, opened from a file of this machine. Nothing is sent to the array. */

import { type DragEvent, Fragment, useRef, useState } from 'react';
import { absolute, duration } from '../format/time';
import { size } from '../format/units';
import { ends, goal, isDrawn, measured, withUnit } from '../lab/display';
import { LabPlot } from '../lab/LabPlot';
import {
  type Fault,
  type Figure,
  MOST_BYTES,
  type Outcome,
  type Plot,
  parseReport,
  type Report,
  type Verdict,
} from '../lab/report';
import { Code, Head } from '../parts/common';
import { text } from '../text';

const TONES: Record<Verdict, string> = {
  failed: 'critical',
  goal_missed: 'critical',
  not_possible: '',
  cannot_tell: '',
  fall_back: 'warning',
  measured: '',
  goal_met: 'good',
};

type Opened = { name: string } & ({ report: Report } | { fault: Fault });

/** The report stays while other pages are shown. */
let kept: Opened | null = null;

export function LabReport() {
  const [opened, setOpened] = useState(kept);
  const [isOver, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const read = async (file: File | undefined) => {
    if (!file) return;
    const parsed =
      file.size > MOST_BYTES ? { fault: { kind: 'size' } as const } : parseReport(await file.text());
    kept = { name: file.name, ...parsed };
    setOpened(kept);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void read(event.dataTransfer.files[0]);
  };
  const report = opened && 'report' in opened ? opened.report : null;
  return (
    <>
      <Head
        kicker={text.lab.kicker}
        title={report ? text.lab.titleOf(report.subject.identity) : text.lab.title}
        sub={report ? text.lab.sub(absolute(report.begun), duration(report.secs * 1000)) : text.lab.none}
      />
      <section
        className={`card lab-drop${isOver ? ' over' : ''}`}
        aria-label={text.lab.open}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={onDrop}
      >
        <button
          type="button"
          className={report ? 'btn' : 'btn primary'}
          onClick={() => input.current?.click()}
        >
          {text.lab.open}
        </button>
        <input
          ref={input}
          type="file"
          accept=".json,application/json"
          className="vh"
          tabIndex={-1}
          aria-label={text.lab.file}
          onChange={(event) => {
            void read(event.currentTarget.files?.[0]);
            // The same file can be opened again after a change.
            event.currentTarget.value = '';
          }}
        />
        <p className="soft">{text.lab.drop}</p>
      </section>
      {opened && 'fault' in opened && (
        <div className="note bad break" role="alert">
          <b>
            <bdi>{text.lab.notRead(opened.name)}</bdi>
          </b>{' '}
          {text.lab.faults(opened.fault)}
        </div>
      )}
      {report && <Whole report={report} />}
    </>
  );
}

function Whole({ report }: { report: Report }) {
  const { subject, machine } = report;
  const rows: [string, string][] = [
    [text.lab.target, [subject.target, ...subject.portals].join(', ')],
    [text.lab.disks, subject.disks.join(', ')],
    [
      text.lab.machine,
      text.lab.machineOf(machine.cpus, machine.processor, size(machine.memory), machine.kernel),
    ],
    [text.lab.run, text.lab.runOf(report.scale, report.repetitions, report.version, report.revision)],
  ];
  return (
    <>
      <section className="card lab-about" aria-label={text.lab.about}>
        <dl className="pairs">
          {rows.map(([name, value]) => (
            <Fragment key={name}>
              <dt>{name}</dt>
              <dd>
                <bdi>{value}</bdi>
              </dd>
            </Fragment>
          ))}
        </dl>
        <Code>{report.settings.command}</Code>
        <ul className="items lab-list">
          {report.outcomes.map((outcome, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes
            <li key={index}>
              <a href={`#${anchor(index)}`}>
                <b>{outcome.id}</b> {outcome.title}
              </a>
              <Chip verdict={outcome.verdict} />
            </li>
          ))}
        </ul>
      </section>
      {report.outcomes.map((outcome, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes
        <Experiment key={index} id={anchor(index)} outcome={outcome} />
      ))}
    </>
  );
}

const anchor = (index: number) => `experiment-${index + 1}`;

function Chip({ verdict }: { verdict: Verdict }) {
  return <span className={`chip ${TONES[verdict]}`}>{text.lab.verdicts[verdict]}</span>;
}

function Experiment({ id, outcome }: { id: string; outcome: Outcome }) {
  const { findings, published, ending } = outcome;
  const isPublished = published.quotes.length > 0 || published.plots.some(isDrawn);
  return (
    <section className="card experiment" id={id} aria-label={`${outcome.id} ${outcome.title}`}>
      <header>
        <h2>
          <span className="soft">{outcome.id}</span> {outcome.title}
        </h2>
        <span className="end">
          <Chip verdict={outcome.verdict} />
        </span>
      </header>
      <p className="question">{outcome.question}</p>
      {ending.state !== 'done' && (
        <p className={`note break ${ending.state === 'failed' ? 'bad' : ''}`}>
          <b>{text.lab.endings[ending.state]}</b> {ending.reason}
        </p>
      )}
      {findings.notes.map(({ kind, text: words }) => (
        <p key={`${kind} ${words}`} className={`note break ${kind === 'unsupported' ? 'warn' : ''}`}>
          <b>{text.lab.notes[kind]}</b> {words}
        </p>
      ))}
      <div className={isPublished ? 'lab-pair' : ''}>
        <div>
          <h3>{text.lab.measured}</h3>
          {findings.setup !== '' && <p className="soft break">{findings.setup}</p>}
          <Plots plots={findings.plots} />
          <Figures figures={findings.figures} />
        </div>
        {isPublished && (
          <div>
            <h3>{text.lab.published}</h3>
            <Plots plots={published.plots} />
            {published.quotes.map(({ text: quote, document, section }) => (
              <blockquote key={quote}>
                <p>{quote}</p>
                <cite className="soft">{text.lab.source(document, section)}</cite>
              </blockquote>
            ))}
          </div>
        )}
      </div>
      <Words title={text.lab.expected} words={findings.expected === '' ? [] : [findings.expected]} />
      <Words title={text.lab.seen} words={findings.seen} />
      <Words title={text.lab.why} words={findings.why} />
      <p className="rule soft">{text.lab.load(outcome.load, duration(outcome.secs * 1000))}</p>
    </section>
  );
}

function Plots({ plots }: { plots: Plot[] }) {
  const drawn = plots.filter(isDrawn);
  if (drawn.length === 0) return null;
  return (
    <div className="lab-plots">
      {drawn.map((plot) => (
        <LabPlot key={plot.title} plot={plot} />
      ))}
    </div>
  );
}

function Words({ title, words }: { title: string; words: string[] }) {
  if (words.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      {words.map((paragraph) => (
        <p key={paragraph} className="break">
          {paragraph}
        </p>
      ))}
    </>
  );
}

function Figures({ figures }: { figures: Figure[] }) {
  if (figures.length === 0) return null;
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label={text.lab.figures}>
      <table className="table">
        <thead>
          <tr>
            <th scope="col">{text.lab.figure}</th>
            <th scope="col">{text.lab.measured}</th>
            <th scope="col">{text.lab.published}</th>
            <th scope="col">{text.lab.goal}</th>
          </tr>
        </thead>
        <tbody>
          {figures.map((figure) => (
            <tr key={figure.name}>
              <td>{figure.name}</td>
              <td>
                <b>{measured(figure)}</b>
                {figure.interval && <small>{text.lab.ends(...ends(figure.interval, figure.unit))}</small>}
              </td>
              <td>
                {figure.published === null ? text.common.none : withUnit(figure.published, figure.unit)}
              </td>
              <td>
                {figure.goal ? goal(figure.goal, figure.unit) : text.common.none}
                {figure.verdict && (
                  <span
                    className={`chip ${{ met: 'good', missed: 'critical', cannot_tell: '' }[figure.verdict]}`}
                  >
                    {text.lab.goals[figure.verdict]}
                  </span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
