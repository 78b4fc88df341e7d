package main

import (
	"errors"

	"github.com/spf13/pflag"

	"kelson.dev/server/controlplane"
)

// limitFlags are the flags of how much is served at once.
type limitFlags struct {
	flags             *pflag.FlagSet // nil: there are none, and so no value of theirs counts
	reading, mutating int
	lasting           int
}

func (o *limitFlags) addFlags(f *pflag.FlagSet) {
	o.flags = f
	f.IntVar(&o.reading, "max-requests-inflight", 400, "how many requests that read are served at once; more get 429; 0: any number")
	f.IntVar(&o.mutating, "max-mutating-requests-inflight", 200, "how many requests that write are served at once; more get 429; 0: any number")
	f.IntVar(&o.lasting, "max-longrunning-requests-per-user", 10_000, "how many watches and other long-running requests a user has at once; more get 429; 0: any number")
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
	if o.lasting < 0 {
		return errors.New("--max-longrunning-requests-per-user can not be negative value")
	}
	unlimited := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	cfg.Limits = controlplane.Limits{InFlight: unlimited(o.reading), MutatingInFlight: unlimited(o.mutating), LastingPerUser: unlimited(o.lasting)}
	return nil
}
