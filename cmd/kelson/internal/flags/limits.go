package flags

import (
	"errors"

	"github.com/spf13/pflag"

	"kelson.dev/kubernetes/controlplane"
)

// Limits are the flags that bound the number of concurrent requests.
type Limits struct {
	flags             *pflag.FlagSet // nil: AddFlags was not called
	reading, mutating int
	longRunning       int
	fair              bool
}

// AddFlags registers the flags.
func (o *Limits) AddFlags(f *pflag.FlagSet) {
	o.flags = f
	f.BoolVar(&o.fair, "enable-priority-and-fairness", true,
		"queue requests by FlowSchemas and PriorityLevelConfigurations; if false, requests beyond the limits get 429, regardless of the user")
	f.IntVar(&o.reading, "max-requests-inflight", 400,
		"maximum number of concurrent read requests; with priority and fairness, added to --max-mutating-requests-inflight to get the maximum number of all concurrent requests; 0: no limit, or, with priority and fairness, adds nothing")
	f.IntVar(&o.mutating, "max-mutating-requests-inflight", 200,
		"maximum number of concurrent write requests; with priority and fairness, added to --max-requests-inflight to get the maximum number of all concurrent requests; 0: no limit, or, with priority and fairness, adds nothing")
	f.IntVar(&o.longRunning, "max-longrunning-requests-per-user", 10_000,
		"maximum number of concurrent watches and other long-running requests of one user, or of all service accounts of one namespace together; a request with more than 16 KiB of headers counts as several; more get 429; 0: no limit")
}

// Apply validates the flags and copies them to cfg.
func (o *Limits) Apply(cfg *controlplane.Config) error {
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
		return errors.New("the sum of --max-requests-inflight and --max-mutating-requests-inflight must be positive, unless --enable-priority-and-fairness=false")
	}
	unlimited := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	cfg.Limits = controlplane.Limits{
		InFlight: unlimited(o.reading), MutatingInFlight: unlimited(o.mutating),
		LongRunningPerUser: unlimited(o.longRunning), NoPriorityAndFairness: !o.fair,
	}
	return nil
}
