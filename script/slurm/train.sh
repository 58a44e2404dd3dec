#!/bin/bash
# Submit with sbatch. Made by `hyperion launch --emit slurm`, whose flags change it.
#SBATCH --job-name=hyperion
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
# Two minutes before the end: the run writes a checkpoint and leaves with 75. Started again, it goes on from there.
#SBATCH --signal=USR1@120
#SBATCH --requeue
set -uo pipefail

# Only ranks that know it can join; srun hands it to them.
HYPERION_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
export HYPERION_JOB_SECRET

srun --kill-on-bad-exit=1 hyperion train recipe.toml --run "hyperion-$SLURM_JOB_ID" --or-resume
code=$?

# 75: stopped after a good checkpoint, by preemption or because the time was up. Back into the queue.
if [ $code = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
