package authz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// Options choose the authorizers as kube-apiserver's flags do.
type Options struct {
	// Modes are asked in this order.
	Modes []string
	// PolicyFile has the policies of mode ABAC.
	PolicyFile string
	// Webhook is the server that mode Webhook asks.
	Webhook Webhook
	// File is an AuthorizationConfiguration, which says all of this and more. It stands alone, and is read again when it changes.
	File string
}

// Webhook says how mode Webhook asks.
type Webhook struct {
	// ConfigFile is a kubeconfig file that names the server.
	ConfigFile string
	// Version is that of the SubjectAccessReviews: v1 or v1beta1, which "" means.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long answers are kept; 0: not at all.
	AuthorizedTTL, UnauthorizedTTL time.Duration
}

// AllModes are the modes in the order in which kube-apiserver names them.
func AllModes() []string {
	return []string{ModeAlwaysAllow, ModeAlwaysDeny, ModeABAC, ModeWebhook, ModeRBAC, ModeNode}
}

// Validate says what is wrong with the options, in kube-apiserver's words.
func (o Options) Validate() []error {
	if o.File != "" {
		if len(o.Modes) > 0 || o.Webhook != (Webhook{}) {
			return []error{ErrFileAlone}
		}
		return nil
	}
	var errs []error
	if len(o.Modes) == 0 {
		errs = append(errs, fmt.Errorf("at least one authorization-mode must be passed"))
	}
	has := func(mode string) bool { return slices.Contains(o.Modes, mode) }
	for _, mode := range o.Modes {
		if !slices.Contains(AllModes(), mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q is not a valid mode", mode))
		}
	}
	if has(ModeABAC) && o.PolicyFile == "" {
		errs = append(errs, fmt.Errorf("authorization-mode ABAC's authorization policy file not passed"))
	}
	if has(ModeWebhook) && o.Webhook.ConfigFile == "" {
		errs = append(errs, fmt.Errorf("authorization-mode Webhook's authorization config file not passed"))
	}
	if o.PolicyFile != "" && !has(ModeABAC) {
		errs = append(errs, fmt.Errorf("cannot specify --authorization-policy-file without mode ABAC"))
	}
	if o.Webhook.ConfigFile != "" && !has(ModeWebhook) {
		errs = append(errs, fmt.Errorf("cannot specify --authorization-webhook-config-file without mode Webhook"))
	}
	if once := slices.Compact(slices.Sorted(slices.Values(o.Modes))); len(once) != len(o.Modes) {
		errs = append(errs, fmt.Errorf("authorization-mode %q has mode specified more than once", o.Modes))
	}
	return errs
}

// ErrFileAlone says that a configuration file excludes the flags that it replaces.
var ErrFileAlone = fmt.Errorf("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")

// Configuration is what valid options without a File mean.
func (o Options) Configuration() *apiserver.AuthorizationConfiguration {
	c := &apiserver.AuthorizationConfiguration{}
	for _, mode := range o.Modes {
		a := apiserver.AuthorizerConfiguration{Type: apiserver.AuthorizerType(mode), Name: strings.ToLower(mode)}
		if mode == ModeWebhook {
			a.Name, a.Webhook = "default", o.Webhook.configuration()
		}
		c.Authorizers = append(c.Authorizers, a)
	}
	return c
}

func (w Webhook) configuration() *apiserver.WebhookConfiguration {
	if w.Version == "" {
		w.Version = "v1beta1"
	}
	return &apiserver.WebhookConfiguration{
		AuthorizedTTL:              metav1.Duration{Duration: w.AuthorizedTTL},
		CacheAuthorizedRequests:    w.AuthorizedTTL != 0,
		UnauthorizedTTL:            metav1.Duration{Duration: w.UnauthorizedTTL},
		CacheUnauthorizedRequests:  w.UnauthorizedTTL != 0,
		Timeout:                    metav1.Duration{Duration: 30 * time.Second},
		FailurePolicy:              apiserver.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: w.Version,
		ConnectionInfo: apiserver.WebhookConnectionInfo{
			Type: apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &w.ConfigFile,
		},
	}
}
