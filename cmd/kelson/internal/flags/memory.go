package flags

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"kelson.dev/apiserver/serving/memory"
	"kelson.dev/apiserver/store"
)

// minBudget is the smallest budget that the flag accepts. A smaller one would only make watches
// encode every event again.
const minBudget = 1 << 20

// Memory is the flag of the memory that a control plane may use in addition to its objects.
type Memory struct{ budget string }

// AddFlags registers the flag.
func (o *Memory) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.budget, "memory-budget", "auto",
		"limit for the memory of everything that can be computed or listed again: events for watches, pages of lists, and encoded and decoded objects; a size such as 256MiB, or auto: a quarter of the memory of the stored objects, at least 32MiB, and at most an eighth of GOMEMLIMIT or of the limit of the control group")
}

// Check validates the flag.
func (o *Memory) Check() error {
	_, err := o.parse()
	return err
}

// parse returns the size, or 0 for auto.
func (o *Memory) parse() (int64, error) {
	if o.budget == "" || o.budget == "auto" {
		return 0, nil
	}
	size, err := resource.ParseQuantity(strings.TrimSuffix(o.budget, "B"))
	if err != nil || size.Value() <= 0 {
		return 0, fmt.Errorf("--memory-budget: %q: want auto, or a size such as 256MiB", o.budget)
	}
	if size.Value() < minBudget {
		return 0, fmt.Errorf("--memory-budget: %q is too small: the minimum is 1MiB", o.budget)
	}
	return size.Value(), nil
}

// Budget returns the budget for [store.Config]. Check has accepted the flag.
func (o *Memory) Budget() func(live int64) int64 {
	if size, err := o.parse(); err == nil && size > 0 {
		return func(int64) int64 { return size }
	}
	return memory.Capped(store.AutomaticBudget)
}
