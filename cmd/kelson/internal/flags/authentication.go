package flags

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

// Authentication are the flags of authenticators, with kube-apiserver's names.
type Authentication struct {
	clientCAFile string
	tokenFile    string
	bootstrap    bool
	configFile   string
	anonymous    bool
	flags        *pflag.FlagSet // nil: AddFlags was not called

	header   authn.RequestHeader
	oidc     authn.OIDC
	webhook  authn.Webhook
	accounts accountFlags
}

// accountFlags are the flags of service account tokens.
type accountFlags struct {
	issuers, audiences []string
	keyFiles           []string
	signingKey         string
	keySetURL          string
	lookup, extend     bool
	maxLifetime        time.Duration
}

// AddFlags registers the flags.
func (o *Authentication) AddFlags(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.clientCAFile, "client-ca-file", "",
		"authorities of client certificates, whose common name is the user and whose organizations are groups; reloaded when it changes")
	f.StringVar(&o.tokenFile, "token-auth-file", "",
		"CSV file of bearer tokens: token,user,uid,\"group,group\"; reloaded when it changes")
	f.BoolVar(&o.bootstrap, "enable-bootstrap-token-auth", false,
		"accept bootstrap tokens, which are Secrets in kube-system")
	f.StringVar(&o.configFile, "authentication-config", "",
		"AuthenticationConfiguration file: OpenID Connect issuers, and the paths that allow anonymous requests; reloaded when it changes")
	f.BoolVar(&o.anonymous, "anonymous-auth", true, "accept requests without a credential as user system:anonymous")

	f.StringVar(&o.header.ClientCAFile, "requestheader-client-ca-file", "",
		"authorities of the client certificates of proxies that name the user in request headers; reloaded when it changes")
	f.StringSliceVar(&o.header.AllowedNames, "requestheader-allowed-names", nil,
		"accepted common names of proxy certificates (default: any)")
	f.StringSliceVar(&o.header.Usernames, "requestheader-username-headers", nil,
		"headers that name the user, such as X-Remote-User; the first one that is set is used")
	f.StringSliceVar(&o.header.UIDs, "requestheader-uid-headers", nil,
		"headers that hold the user's UID, such as X-Remote-Uid")
	f.StringSliceVar(&o.header.Groups, "requestheader-group-headers", nil,
		"headers that name the user's groups, such as X-Remote-Group")
	f.StringSliceVar(&o.header.ExtraPrefixes, "requestheader-extra-headers-prefix", nil,
		"prefixes of headers that hold extra attributes, such as X-Remote-Extra-")

	f.StringVar(&o.oidc.IssuerURL, "oidc-issuer-url", "",
		"URL of the OpenID Connect issuer whose tokens are accepted; must use https")
	f.StringVar(&o.oidc.ClientID, "oidc-client-id", "", "audience that the issuer's tokens must have")
	f.StringVar(&o.oidc.CAFile, "oidc-ca-file", "",
		"authorities of the issuer's serving certificate (default: the system's)")
	f.StringVar(&o.oidc.UsernameClaim, "oidc-username-claim", "sub", "claim that holds the user name")
	f.StringVar(&o.oidc.UsernamePrefix, "oidc-username-prefix", "",
		"prefix of user names; \"-\" means none (default: the issuer's URL and #, or none if the claim is email)")
	f.StringVar(&o.oidc.GroupsClaim, "oidc-groups-claim", "", "claim that holds the groups")
	f.StringVar(&o.oidc.GroupsPrefix, "oidc-groups-prefix", "", "prefix of group names")
	f.StringSliceVar(&o.oidc.SigningAlgs, "oidc-signing-algs", []string{"RS256"},
		"accepted signing algorithms: RS, ES or PS followed by 256, 384 or 512")
	f.Var(cliflag.NewMapStringStringNoSplit(&o.oidc.RequiredClaims), "oidc-required-claim",
		"claim=value pair that tokens must have; may be repeated")

	f.StringVar(&o.webhook.ConfigFile, "authentication-token-webhook-config-file", "",
		"kubeconfig of a server that reviews the tokens that no other authenticator accepts")
	f.StringVar(&o.webhook.Version, "authentication-token-webhook-version", "v1beta1",
		"version of the TokenReviews sent to the webhook: v1 or v1beta1")
	f.DurationVar(&o.webhook.TTL, "authentication-token-webhook-cache-ttl", 2*time.Minute,
		"how long to cache the webhook's responses")

	o.accounts.AddFlags(f)
}

func (o *accountFlags) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.issuers, "service-account-issuer", nil,
		"issuer of service account tokens; may be repeated: new tokens get the first issuer, all are accepted")
	f.StringSliceVar(&o.audiences, "api-audiences", nil, "audiences of this server in tokens (default: the issuers)")
	f.StringArrayVar(&o.keyFiles, "service-account-key-file", nil,
		"file with public keys that verify service account tokens; may be repeated")
	f.StringVar(&o.signingKey, "service-account-signing-key-file", "",
		"private key that signs service account tokens (default: the key in the data directory, or a new one for this run)")
	f.StringVar(&o.keySetURL, "service-account-jwks-uri", "",
		"URL of the key set in the issuer's discovery document; must use https")
	f.BoolVar(&o.lookup, "service-account-lookup", true,
		"accept tokens from Secrets only while the Secret and the service account exist")
	f.BoolVar(&o.extend, "service-account-extend-token-expiration", true,
		"extend the lifetime of the tokens that pods get by default to one year")
	f.DurationVar(&o.maxLifetime, "service-account-max-token-expiration", 0,
		"maximum lifetime of requested tokens; 0: no limit")
}

// Apply validates the flags, reads the key files and copies both to cfg.
func (o *Authentication) Apply(cfg *controlplane.Config) error {
	if o.flags == nil {
		return nil
	}
	auth := &cfg.Authentication
	auth.ClientCAFile, auth.TokenFile, auth.ConfigFile, auth.AcceptBootstrapTokens = o.clientCAFile, o.tokenFile,
		o.configFile, o.bootstrap
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
	return o.accounts.Apply(&cfg.ServiceAccounts)
}

func (o *Authentication) anyChanged(names ...string) bool {
	for _, name := range names {
		if o.flags.Changed(name) {
			return true
		}
	}
	return false
}

// Apply copies the flags that are set to accounts, and keeps its other values.
func (o *accountFlags) Apply(accounts *controlplane.ServiceAccounts) error {
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
