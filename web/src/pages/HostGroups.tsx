/** Host groups, and one of them: its hosts with their paths, and the volumes that all of them see. */

import { Link, useNavigate, useParams } from '@tanstack/react-router';
import * as access from '../accessActions';
import * as actions from '../actions';
import { useConnections, useHostGroups } from '../api/queries';
import type { HostGroup } from '../api/types';
import { Card, ErrorNote, Head, Loading, Name, Size } from '../parts/common';
import { Icon } from '../parts/Icon';
import { May } from '../parts/May';
import { open, perform } from '../parts/request';
import { text } from '../text';
import { HEALTH_STYLE, HostViews, usePaths } from './Hosts';

/** Groups in the document. */
const MOST = 500;

export function HostGroups() {
  const groups = useHostGroups();
  if (!groups.data) return groups.error ? <ErrorNote error={groups.error} /> : <Loading />;
  return (
    <>
      <Head
        kicker={text.hosts.kicker}
        title={text.hostGroup.title}
        sub={text.hostGroup.count(groups.data.length)}
      >
        <div className="acts">
          <HostViews />
          <May>
            <button type="button" className="btn primary" onClick={() => open({ kind: 'hostGroup' })}>
              <Icon name="plus" />
              {text.verbs.newHostGroup}
            </button>
          </May>
        </div>
      </Head>
      {groups.data.length === 0 ? (
        <p className="card center">{text.hostGroup.empty}</p>
      ) : (
        <section className="card" aria-label={text.hostGroup.title}>
          <ul className="items">
            {groups.data.slice(0, MOST).map((group) => (
              <li key={group.name}>
                <span>
                  <Link to="/host-groups/$name" params={{ name: group.name }}>
                    <Name>{group.name}</Name>
                  </Link>
                  <small>{text.hostGroup.summary(group.host_count, group.connection_count)}</small>
                </span>
                <span className="soft">
                  <Size bytes={group.space.total_provisioned} />
                </span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

export function HostGroupPage() {
  const { name } = useParams({ from: '/host-groups/$name' });
  const groups = useHostGroups();
  if (!groups.data) return groups.error ? <ErrorNote error={groups.error} /> : <Loading />;
  const group = groups.data.find((group) => group.name.toLowerCase() === name.toLowerCase());
  if (!group) {
    return (
      <div className="card center">
        <h1>{text.hostGroup.gone}</h1>
        <Link className="btn" to="/host-groups">
          {text.hostGroup.back}
        </Link>
      </div>
    );
  }
  return (
    <>
      <Head
        kicker={text.hostGroup.kicker}
        title={<Name>{group.name}</Name>}
        sub={text.hostGroup.summary(group.host_count, group.connection_count)}
      >
        <May>
          <Actions group={group} />
        </May>
      </Head>
      <div className="grid">
        <Hosts group={group.name} />
        <Volumes group={group.name} />
      </div>
    </>
  );
}

function Actions({ group }: { group: HostGroup }) {
  const navigate = useNavigate();
  const { name } = group;
  const isEmpty = group.host_count === 0 && group.connection_count === 0;
  const remove = async () => {
    if (await perform(() => access.deleteHostGroup(name))) await navigate({ to: '/host-groups' });
  };
  return (
    <div className="acts">
      <button type="button" className="btn" onClick={() => open({ kind: 'addHosts', group: name })}>
        {text.verbs.addHosts}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'attach', to: { hostGroup: name } })}>
        {text.verbs.attach}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'rename', of: 'hostGroup', name })}>
        {text.verbs.rename}
      </button>
      <button
        type="button"
        className="btn danger"
        disabled={!isEmpty}
        title={isEmpty ? undefined : text.hostGroup.notEmpty}
        onClick={remove}
      >
        {text.verbs.deleteHost}
      </button>
    </div>
  );
}

function Hosts({ group }: { group: string }) {
  const { rows, error } = usePaths();
  const own = rows?.filter(({ host }) => host.host_group.name === group);
  return (
    <Card className="c6" title={text.hostGroup.hosts}>
      <ErrorNote error={error} />
      {own?.length === 0 && <p className="soft">{text.hostGroup.noHosts}</p>}
      <ul className="items">
        {own?.map(({ host, paths }) => (
          <li key={host.name}>
            <span>
              <Link to="/hosts/$name" params={{ name: host.name }}>
                <Name>{host.name}</Name>
              </Link>
            </span>
            <span className={`chip ${HEALTH_STYLE[paths.health]}`}>
              {text.hostGroup.paths(paths.connected, paths.used)}
            </span>
            <May>
              <button
                type="button"
                className="btn small"
                onClick={() => perform(() => access.removeHost(group, host.name))}
              >
                {text.verbs.remove}
              </button>
            </May>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Each volume once: the array lists it for every host of the group. */
function Volumes({ group }: { group: string }) {
  const connections = useConnections({ hostGroup: group });
  const luns = new Map(connections.data?.map(({ volume, lun }) => [volume.name ?? '', lun]));
  return (
    <Card className="c6" title={text.hostGroup.volumes}>
      <ErrorNote error={connections.error} />
      {connections.data && luns.size === 0 && <p className="soft">{text.hostGroup.noVolumes}</p>}
      <ul className="items">
        {[...luns].map(([name, lun]) => (
          <li key={name}>
            <span>
              <Link to="/volumes/$name" params={{ name: name.split('.')[0] ?? '' }}>
                <Name>{name}</Name>
              </Link>
              <small>{text.volume.lun(lun)}</small>
            </span>
            <May>
              <button
                type="button"
                className="btn small"
                onClick={() => perform(() => actions.disconnect({ hostGroup: group }, name, lun))}
              >
                {text.verbs.disconnect}
              </button>
            </May>
          </li>
        ))}
      </ul>
    </Card>
  );
}
