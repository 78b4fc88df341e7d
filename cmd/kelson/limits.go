package main

import (
	"errors"

	"github.com/spf13/pflag"

	"kelson.dev/kubernetes/controlplane"
)

// limitFlags are the flags of how much is served at once.
type limitFlags struct {
	flags             *pflag.FlagSet // nil: there are none, and so no value of theirs counts
	reading, mutating int
	longRunning       int
	fair              bool
}

func (o *limitFlags) addFlags(f *pflag.FlagSet) {
	o.flags = f
	f.BoolVar(&o.fair, "enable-priority-and-fairness", true, "queue requests by FlowSchemas and PriorityLevelConfigurations; false: requests beyond the limits get 429, whichever user they are of")
	f.IntVar(&o.reading, "max-requests-inflight", 400, "together with --max-mutating-requests-inflight, how many requests priority and fairness serves at once; without it, how many requests that read are served at once; 0: none, or any number")
	f.IntVar(&o.mutating, "max-mutating-requests-inflight", 200, "together with --max-requests-inflight, how many requests priority and fairness serves at once; without it, how many requests that write are served at once; 0: none, or any number")
	f.IntVar(&o.longRunning, "max-longrunning-requests-per-user", 10_000, "how many watches and other long-running requests a user has at once, and all service accounts of a namespace together; more get 429; 0: any number")
}

// apply sets what the flags say in cfg.
func (o *limitFlags) apply(cfg *controlplane.Config) error {
	if o.flags == nil {
		return nil
	}
	if o.reading < 0 {
		return errors.New("--max-requests-inflight can not be negative value")
	}
	if o.mutating < 0 {
		return errors.New("--max-mutating-requests-inflight can not be negative value")
	}
	if o.longRunning < 0 {
		return errors.New("--max-longrunning-requests-per-user can not be negative value")
	}
	if o.fair && o.reading+o.mutating == 0 {
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight must add up to something positive, unless --enable-priority-and-fairness=false")
	}
	unlimited := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	cfg.Limits = controlplane.Limits{
		InFlight: unlimited(o.reading), MutatingInFlight: unlimited(o.mutating), LongRunningPerUser: unlimited(o.longRunning), NoPriorityAndFairness: !o.fair,
	}
	return nil
}
