/** The dialogs of all actions. Each shows its command, and the answer of the array if it is refused. */

import { Modal } from '@mantine/core';
import {
  type GroupRequest,
  type LinkRequest,
  open,
  type PodRequest,
  type Request,
  type StretchRequest,
  useRequest,
} from '../parts/request';
import { text } from '../text';
import { AdminForm, DeleteAdminForm, RemoveTokenForm, RoleForm, TokenForm } from './admins';
import {
  AddVolumesForm,
  EradicateGroupForm,
  GroupSnapshotForm,
  PlanForm,
  ProtectForm,
  ProtectionGroupForm,
  RestoreGroupForm,
} from './groups';
import { AddHostsForm, EditHostForm, HostForm, HostGroupForm } from './hosts';
import {
  ConnectArrayForm,
  ConnectionKeyForm,
  DisconnectArrayForm,
  DistanceForm,
  LinkAddressForm,
  LinkTestForm,
} from './links';
import { ClonePodForm, EradicatePodForm, MoveForm, MoveInForm, PodForm, QuotaForm } from './pods';
import { type Renamed, RenameForm } from './Rename';
import {
  MediatorForm,
  PreferForm,
  ResignForm,
  ResyncLimitForm,
  StretchForm,
  UnstretchForm,
} from './stretched';
import {
  AttachForm,
  CloneForm,
  ConnectForm,
  CreateForm,
  EradicateForm,
  LimitsForm,
  ResizeForm,
  RestoreForm,
  SnapshotForm,
} from './volumes';

/** Above the drawer of a volume. */
const LAYER = 300;

export function Dialogs({ onRenamed }: { onRenamed: Renamed }) {
  const current = useRequest();
  return (
    <Modal
      opened={current !== null}
      onClose={() => open(null)}
      title={current && text.titles(current)}
      centered
      size={520}
      zIndex={LAYER}
      closeButtonProps={{ 'aria-label': text.common.close }}
    >
      {current && <Body key={JSON.stringify(current)} request={current} onRenamed={onRenamed} />}
    </Modal>
  );
}

function Body({ request, onRenamed }: { request: Request; onRenamed: Renamed }) {
  switch (request.kind) {
    case 'create':
      return <CreateForm pod={request.pod ?? null} />;
    case 'host':
      return <HostForm initiator={request.iqn ?? ''} />;
    case 'editHost':
      return <EditHostForm host={request.host} />;
    case 'hostGroup':
      return <HostGroupForm />;
    case 'addHosts':
      return <AddHostsForm group={request.group} />;
    case 'attach':
      return <AttachForm to={request.to} />;
    case 'admin':
      return <AdminForm />;
    case 'role':
      return <RoleForm admin={request.admin} />;
    case 'deleteAdmin':
      return <DeleteAdminForm name={request.name} />;
    case 'removeToken':
      return <RemoveTokenForm name={request.name} />;
    case 'token':
      return <TokenForm admin={request.admin} hasToken={request.hasToken} isOwn={request.isOwn} />;
    case 'snapshot':
      return <SnapshotForm names={request.names} />;
    case 'connect':
      return <ConnectForm names={request.names} />;
    case 'protect':
      return <ProtectForm names={request.names} />;
    case 'clone':
      return <CloneForm source={request.source} />;
    case 'rename':
      return <RenameForm of={request.of} name={request.name} onRenamed={onRenamed} />;
    case 'resize':
      return <ResizeForm volume={request.volume} />;
    case 'limits':
      return <LimitsForm volume={request.volume} />;
    case 'restore':
      return <RestoreForm volume={request.volume} from={request.from} />;
    case 'eradicate':
      return <EradicateForm name={request.name} />;
    case 'pod':
    case 'clonePod':
    case 'quota':
    case 'moveIn':
    case 'move':
    case 'eradicatePod':
      return <PodBody request={request} onRenamed={onRenamed} />;
    case 'stretch':
    case 'unstretch':
    case 'prefer':
    case 'mediator':
    case 'resyncLimit':
    case 'resign':
      return <StretchBody request={request} />;
    case 'connectionKey':
    case 'connectArray':
    case 'disconnectArray':
    case 'linkAddress':
    case 'linkTest':
    case 'distance':
      return <LinkBody request={request} />;
    default:
      return <GroupBody request={request} />;
  }
}

function PodBody({ request, onRenamed }: { request: PodRequest; onRenamed: Renamed }) {
  switch (request.kind) {
    case 'pod':
      return <PodForm />;
    case 'clonePod':
      return <ClonePodForm source={request.source} />;
    case 'quota':
      return <QuotaForm pod={request.pod} />;
    case 'moveIn':
      return <MoveInForm pod={request.pod} />;
    case 'move':
      return <MoveForm names={request.names} onRenamed={onRenamed} />;
    case 'eradicatePod':
      return <EradicatePodForm name={request.name} />;
  }
}

function StretchBody({ request }: { request: StretchRequest }) {
  switch (request.kind) {
    case 'stretch':
      return <StretchForm pod={request.pod} />;
    case 'unstretch':
      return <UnstretchForm pod={request.pod} array={request.array} />;
    case 'prefer':
      return <PreferForm pod={request.pod} />;
    case 'mediator':
      return <MediatorForm pod={request.pod} />;
    case 'resyncLimit':
      return <ResyncLimitForm pod={request.pod} />;
    case 'resign':
      return <ResignForm pod={request.pod} array={request.array} />;
  }
}

function LinkBody({ request }: { request: LinkRequest }) {
  switch (request.kind) {
    case 'connectionKey':
      return <ConnectionKeyForm />;
    case 'connectArray':
      return <ConnectArrayForm />;
    case 'disconnectArray':
      return <DisconnectArrayForm name={request.name} />;
    case 'linkAddress':
      return <LinkAddressForm name={request.name} address={request.address} />;
    case 'linkTest':
      return <LinkTestForm name={request.name} />;
    case 'distance':
      return <DistanceForm link={request.link} />;
  }
}

function GroupBody({ request }: { request: GroupRequest }) {
  switch (request.kind) {
    case 'protectionGroup':
      return <ProtectionGroupForm names={request.names} />;
    case 'plan':
      return <PlanForm group={request.group} />;
    case 'addVolumes':
      return <AddVolumesForm group={request.group} />;
    case 'groupSnapshot':
      return <GroupSnapshotForm group={request.group} />;
    case 'restoreGroup':
      return <RestoreGroupForm snapshot={request.snapshot} volumes={request.volumes} />;
    case 'eradicateGroup':
      return <EradicateGroupForm name={request.name} />;
  }
}
