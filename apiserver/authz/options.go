package authz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// Options select the authorizers, with the meaning of kube-apiserver's flags.
type Options struct {
	// Modes are the modes, in the order in which they decide.
	Modes []string
	// PolicyFile is the policy file of mode ABAC.
	PolicyFile string
	// Webhook is the server to which mode Webhook sends requests.
	Webhook Webhook
	// File is an AuthorizationConfiguration file. It excludes Modes and Webhook and is reloaded
	// when it changes.
	File string
}

// Webhook configures mode Webhook.
type Webhook struct {
	// ConfigFile is a kubeconfig file that names the server.
	ConfigFile string
	// Version is the version of SubjectAccessReviews: v1 or v1beta1; "" means v1beta1.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long responses are cached; 0 disables the cache.
	AuthorizedTTL, UnauthorizedTTL time.Duration
}

// AllModes returns all modes in the order of kube-apiserver's help.
func AllModes() []string {
	return []string{ModeAlwaysAllow, ModeAlwaysDeny, ModeABAC, ModeWebhook, ModeRBAC, ModeNode}
}

// Validate returns all errors in the options, with kube-apiserver's wording.
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

// ErrFileAlone reports that File is combined with flags that it excludes.
var ErrFileAlone = fmt.Errorf("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")

// Configuration returns the configuration of valid options without File.
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
