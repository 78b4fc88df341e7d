package plugins

import (
	"github.com/spf13/pflag"
	_ "k8s.io/kubernetes/pkg/features" // registers Kubernetes' feature gates
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

// AddFlags registers the flags of Kubernetes' plugins. They apply to all control planes of the
// process.
func AddFlags(f *pflag.FlagSet) { defaulttolerationseconds.RegisterFlags(f) }
