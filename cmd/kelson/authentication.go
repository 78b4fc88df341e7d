package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/pki"
	"kelson.dev/kubernetes/controlplane"
)

// authenticationFlags say who is known, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them.
type authenticationFlags struct {
	clientCAFile string
	tokenFile    string
	bootstrap    bool
	configFile   string
	anonymous    bool
	flags        *pflag.FlagSet // nil: there are none, and so no value of theirs counts

	header   authn.RequestHeader
	oidc     authn.OIDC
	webhook  authn.Webhook
	accounts accountFlags
}

// accountFlags are about the tokens of service accounts.
type accountFlags struct {
	issuers, audiences []string
	keyFiles           []string
	signingKey         string
	keySetURL          string
	lookup, extend     bool
	maxLifetime        time.Duration
}

func (o *authenticationFlags) addFlags(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.clientCAFile, "client-ca-file", "", "authorities of client certificates: the common name is the user, organizations are groups; read again when it changes")
	f.StringVar(&o.tokenFile, "token-auth-file", "", "CSV file of bearer tokens: token,user,uid,\"group,group\"; read again when it changes")
	f.BoolVar(&o.bootstrap, "enable-bootstrap-token-auth", false, "accept the bootstrap tokens of Secrets in kube-system")
	f.StringVar(&o.configFile, "authentication-config", "", "AuthenticationConfiguration: OpenID Connect issuers, and who may be anonymous where; read again when it changes")
	f.BoolVar(&o.anonymous, "anonymous-auth", true, "let requests without a credential in, as system:anonymous")

	f.StringVar(&o.header.ClientCAFile, "requestheader-client-ca-file", "", "authorities of proxies that name the user in headers; read again when it changes")
	f.StringSliceVar(&o.header.AllowedNames, "requestheader-allowed-names", nil, "common names that a proxy's certificate may have (default: any)")
	f.StringSliceVar(&o.header.Usernames, "requestheader-username-headers", nil, "headers that name the user, such as X-Remote-User; the first that is set counts")
	f.StringSliceVar(&o.header.UIDs, "requestheader-uid-headers", nil, "headers with the user's uid, such as X-Remote-Uid")
	f.StringSliceVar(&o.header.Groups, "requestheader-group-headers", nil, "headers that name groups, such as X-Remote-Group")
	f.StringSliceVar(&o.header.ExtraPrefixes, "requestheader-extra-headers-prefix", nil, "prefixes of headers with extra attributes, such as X-Remote-Extra-")

	f.StringVar(&o.oidc.IssuerURL, "oidc-issuer-url", "", "OpenID Connect issuer whose tokens are accepted; https")
	f.StringVar(&o.oidc.ClientID, "oidc-client-id", "", "audience that the issuer's tokens must be for")
	f.StringVar(&o.oidc.CAFile, "oidc-ca-file", "", "authorities of the issuer's server (default: this machine's)")
	f.StringVar(&o.oidc.UsernameClaim, "oidc-username-claim", "sub", "claim that names the user")
	f.StringVar(&o.oidc.UsernamePrefix, "oidc-username-prefix", "", "what goes before user names; \"-\" for nothing (default: the issuer's URL and #; nothing for the claim email)")
	f.StringVar(&o.oidc.GroupsClaim, "oidc-groups-claim", "", "claim that names groups")
	f.StringVar(&o.oidc.GroupsPrefix, "oidc-groups-prefix", "", "what goes before names of groups")
	f.StringSliceVar(&o.oidc.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "accepted signing algorithms: RS, ES or PS with 256, 384 or 512")
	f.Var(cliflag.NewMapStringStringNoSplit(&o.oidc.RequiredClaims), "oidc-required-claim", "claim=value that tokens must have; may be repeated")

	f.StringVar(&o.webhook.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig of a server that is asked about tokens nobody else knows")
	f.StringVar(&o.webhook.Version, "authentication-token-webhook-version", "v1beta1", "version of the TokenReviews sent to it: v1 or v1beta1")
	f.DurationVar(&o.webhook.TTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long its answers count")

	o.accounts.addFlags(f)
}

func (o *accountFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.issuers, "service-account-issuer", nil, "issuer of service account tokens; the first is written into them, all are accepted")
	f.StringSliceVar(&o.audiences, "api-audiences", nil, "names of this server in tokens (default: the issuers)")
	f.StringArrayVar(&o.keyFiles, "service-account-key-file", nil, "keys whose service account tokens are accepted; may be repeated, and hold several")
	f.StringVar(&o.signingKey, "service-account-signing-key-file", "", "key that signs service account tokens (default: one of the data directory, or made for this run)")
	f.StringVar(&o.keySetURL, "service-account-jwks-uri", "", "where the issuer's discovery document says its keys are; https")
	f.BoolVar(&o.lookup, "service-account-lookup", true, "accept tokens of Secrets only as long as the Secret and the account exist")
	f.BoolVar(&o.extend, "service-account-extend-token-expiration", true, "let the tokens that pods are given by default live for a year")
	f.DurationVar(&o.maxLifetime, "service-account-max-token-expiration", 0, "the longest lifetime of tokens that can be asked for; 0: any")
}

// apply reads what the flags name and sets it in cfg.
func (o *authenticationFlags) apply(cfg *controlplane.Config) error {
	if o.flags == nil {
		return nil
	}
	auth := &cfg.Authentication
	auth.ClientCAFile, auth.TokenFile, auth.ConfigFile, auth.AcceptBootstrapTokens = o.clientCAFile, o.tokenFile, o.configFile, o.bootstrap
	if o.flags.Changed("anonymous-auth") {
		auth.Anonymous = &o.anonymous
	}
	if o.header.ClientCAFile != "" {
		auth.RequestHeader = &o.header
	}
	if o.anyChanged("oidc-issuer-url", "oidc-client-id", "oidc-ca-file", "oidc-username-claim", "oidc-username-prefix",
		"oidc-groups-claim", "oidc-groups-prefix", "oidc-signing-algs", "oidc-required-claim") {
		auth.OIDC = &o.oidc
	}
	if o.webhook.ConfigFile != "" {
		auth.Webhook = &o.webhook
	}
	return o.accounts.apply(&cfg.ServiceAccounts)
}

func (o *authenticationFlags) anyChanged(names ...string) bool {
	for _, name := range names {
		if o.flags.Changed(name) {
			return true
		}
	}
	return false
}

// apply leaves what no flag names as it is.
func (o *accountFlags) apply(accounts *controlplane.ServiceAccounts) error {
	if err := o.check(); err != nil {
		return err
	}
	accounts.Issuers, accounts.Audiences = o.issuers, o.audiences
	accounts.NoLookup, accounts.NoExtension, accounts.MaxLifetime = !o.lookup, !o.extend, o.maxLifetime
	if o.keySetURL != "" {
		accounts.KeySetURL = o.keySetURL
	}
	if o.signingKey != "" {
		key, err := pki.ReadKey(o.signingKey)
		if err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		accounts.Key = key
	}
	for _, file := range o.keyFiles {
		keys, err := pki.ReadPublicKeys(file)
		if err != nil {
			return fmt.Errorf("--service-account-key-file: %w", err)
		}
		accounts.Keys = append(accounts.Keys, keys...)
	}
	return nil
}

func (o *accountFlags) check() error {
	seen := map[string]bool{}
	for _, issuer := range o.issuers {
		switch _, err := url.Parse(issuer); {
		case issuer == "":
			return errors.New("service-account-issuer should not be an empty string")
		case err != nil:
			return fmt.Errorf("service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err)
		case seen[issuer]:
			return fmt.Errorf("service-account-issuer %q is already specified", issuer)
		}
		seen[issuer] = true
	}
	if o.keySetURL != "" {
		u, err := url.Parse(o.keySetURL)
		if err != nil {
			return fmt.Errorf("service-account-jwks-uri must be a valid URL: %w", err)
		}
		if u.Scheme != "https" {
			return fmt.Errorf("service-account-jwks-uri requires https scheme, parsed as: %v", u)
		}
	}
	return nil
}
