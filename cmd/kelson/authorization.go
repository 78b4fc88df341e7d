package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/authz"
	"kelson.dev/kubernetes/controlplane"
)

// authorizationFlags say who may do what, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them, but not what
// holds where no mode is given.
type authorizationFlags struct {
	options  authz.Options
	defaults []string
	flags    *pflag.FlagSet // nil: there are none, and so no value of theirs counts
}

// fileReplaces are the flags that --authorization-config excludes.
var fileReplaces = []string{
	"authorization-mode", "authorization-webhook-config-file", "authorization-webhook-version",
	"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl",
}

func (o *authorizationFlags) addFlags(f *pflag.FlagSet) {
	o.flags = f
	if o.defaults == nil {
		o.defaults = []string{authz.ModeNode, authz.ModeRBAC}
	}
	f.StringSliceVar(&o.options.Modes, "authorization-mode", nil,
		"who decides what users may do, in this order: "+strings.Join(authz.AllModes(), ", ")+" (default "+strings.Join(o.defaults, ",")+")")
	f.StringVar(&o.options.PolicyFile, "authorization-policy-file", "", "policies of mode ABAC: one per line, as JSON")
	f.StringVar(&o.options.Webhook.ConfigFile, "authorization-webhook-config-file", "", "kubeconfig of the server that mode Webhook asks")
	f.StringVar(&o.options.Webhook.Version, "authorization-webhook-version", "v1beta1", "version of the SubjectAccessReviews for the webhook: v1 or v1beta1")
	f.DurationVar(&o.options.Webhook.AuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long the webhook's yes is kept; 0: not at all")
	f.DurationVar(&o.options.Webhook.UnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long the webhook's no is kept; 0: not at all")
	f.StringVar(&o.options.File, "authorization-config", "",
		"AuthorizationConfiguration, in place of --authorization-mode and --authorization-webhook-*: several webhooks, CEL conditions; read again when it changes")
}

// allowsAll reports whether every known client may do everything.
func (o *authorizationFlags) allowsAll() bool {
	modes := o.options.Modes
	if len(modes) == 0 {
		modes = o.defaults
	}
	return o.options.File == "" && slices.Contains(modes, authz.ModeAlwaysAllow)
}

// apply sets what the flags say in cfg.
func (o *authorizationFlags) apply(cfg *controlplane.Config) error {
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
		options.Modes = o.defaults
	}
	if err := errors.Join(options.Validate()...); err != nil {
		return err
	}
	cfg.Authorization = options
	return nil
}
