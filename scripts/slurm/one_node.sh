#!/usr/bin/env bash
# A SLURM cluster of this machine alone, to try a sweep as an array of jobs. Debian or Ubuntu, as root, without systemd.
#
#   scripts/slurm/one_node.sh install    # slurm-wlm and munge by apt-get
#   scripts/slurm/one_node.sh start      # writes /etc/slurm/slurm.conf, if there is none of somebody else, and starts the daemons
#   export PATH="$PWD/scripts/slurm/bin:$PATH"    # a stand-in for sacct, which needs a database
#   ./run pdefit fit -m hydra/launcher=submitit_slurm experiment=reaction/fisher_front seed=0,1,2
#   scripts/slurm/one_node.sh stop
set -euo pipefail
conf=/etc/slurm/slurm.conf mark="# written by pdefit's one_node.sh"
[ "$(id -u)" = 0 ] || { echo "one_node.sh: it starts daemons, so run it as root" >&2; exit 1; }

need() {
    local tool
    for tool in slurmctld slurmd munged; do
        [ -n "$(PATH="$PATH:/usr/sbin" command -v $tool)" ] && continue
        echo "one_node.sh: $tool is missing; scripts/slurm/one_node.sh install" >&2; exit 1
    done
}

write_conf() {
    if [ -e $conf ] && ! grep -qF "$mark" $conf; then
        echo "one_node.sh: $conf belongs to another cluster; it is left alone" >&2; exit 1
    fi
    local host memory; host="$(hostname -s)"
    memory=$(awk '/MemTotal/ {print int($2 * 0.9 / 1024)}' /proc/meminfo)
    install -d -m 755 /etc/slurm /var/spool/slurmctld /var/spool/slurmd /var/log/slurm
    cat > $conf <<CONF
$mark
ClusterName=pdefit
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# a job that was put back starts after seconds, not after two minutes
AuthInfo=cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ReturnToService=2
# jobs of the partition "urgent" put those of "main" back into the queue, after the signal that jobs asked for
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
KillWait=10
MailProg=/bin/true
PropagateResourceLimits=NONE
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=30
PartitionName=urgent Nodes=$host MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
}

case "${1:-}" in
install)
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null ;;
start)
    export PATH="$PATH:/usr/sbin"
    need
    write_conf
    install -d -m 755 -o munge -g munge /run/munge /var/log/munge /var/lib/munge
    pgrep -x munged >/dev/null || runuser -u munge -- /usr/sbin/munged
    pgrep -x slurmctld >/dev/null || slurmctld
    pgrep -x slurmd >/dev/null || slurmd
    for _ in $(seq 100); do
        [ "$(sinfo -h -o %T 2>/dev/null | head -1)" = idle ] && { sinfo; exit 0; }
        sleep 0.2
    done
    sinfo; echo "one_node.sh: no node is idle; /var/log/slurm says why" >&2; exit 1 ;;
stop)
    [ -e $conf ] && grep -qF "$mark" $conf || { echo "one_node.sh: there is no cluster of this script" >&2; exit 1; }
    scancel --full --user=root || true
    scontrol shutdown || true
    pkill -x munged || true
    rm -f $conf ;;
*)
    sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
