package flags

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/authz"
	"kelson.dev/kubernetes/controlplane"
)

// Authorization are the flags of authorizers, with kube-apiserver's names.
type Authorization struct {
	// Defaults are the modes if no flag sets them. AddFlags replaces nil by Node and RBAC.
	Defaults []string

	options authz.Options
	flags   *pflag.FlagSet // nil: AddFlags was not called
}

// fileReplaces lists the flags that --authorization-config excludes.
var fileReplaces = []string{
	"authorization-mode", "authorization-webhook-config-file", "authorization-webhook-version",
	"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl",
}

// AddFlags registers the flags.
func (o *Authorization) AddFlags(f *pflag.FlagSet) {
	o.flags = f
	if o.Defaults == nil {
		o.Defaults = []string{authz.ModeNode, authz.ModeRBAC}
	}
	f.StringSliceVar(&o.options.Modes, "authorization-mode", nil,
		"authorizers to ask, in this order: "+strings.Join(authz.AllModes(), ", ")+" (default "+
			strings.Join(o.Defaults, ",")+")")
	f.StringVar(&o.options.PolicyFile, "authorization-policy-file", "",
		"policy file of mode ABAC: one JSON object per line")
	f.StringVar(&o.options.Webhook.ConfigFile, "authorization-webhook-config-file", "",
		"kubeconfig of the server that mode Webhook asks")
	f.StringVar(&o.options.Webhook.Version, "authorization-webhook-version", "v1beta1",
		"version of the SubjectAccessReviews sent to the webhook: v1 or v1beta1")
	f.DurationVar(&o.options.Webhook.AuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute,
		"how long to cache the webhook's \"authorized\" responses; 0: no cache")
	f.DurationVar(&o.options.Webhook.UnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second,
		"how long to cache the webhook's \"unauthorized\" responses; 0: no cache")
	f.StringVar(&o.options.File, "authorization-config", "",
		"AuthorizationConfiguration file, instead of --authorization-mode and --authorization-webhook-*: allows several webhooks and CEL conditions; reloaded when it changes")
}

// AllowsAll reports whether every authenticated client may do everything.
func (o *Authorization) AllowsAll() bool {
	modes := o.options.Modes
	if len(modes) == 0 {
		modes = o.Defaults
	}
	return o.options.File == "" && slices.Contains(modes, authz.ModeAlwaysAllow)
}

// Apply validates the flags and copies them to cfg.
func (o *Authorization) Apply(cfg *controlplane.Config) error {
	if o.flags == nil {
		return nil
	}
	options := o.options
	if options.File != "" {
		for _, name := range fileReplaces {
			if o.flags.Changed(name) {
				return authz.ErrFileAlone
			}
		}
		options.Webhook = authz.Webhook{}
	} else if len(options.Modes) == 0 {
		options.Modes = o.Defaults
	}
	if err := errors.Join(options.Validate()...); err != nil {
		return err
	}
	cfg.Authorization = options
	return nil
}
