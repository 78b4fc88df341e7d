package authn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"

	"kelson.dev/apiserver/internal/filewatch"
)

// configCodecs decodes AuthenticationConfigurations of all versions strictly.
var configCodecs = sync.OnceValue(func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
})

// issuers authenticates tokens of the OpenID Connect issuers in an AuthenticationConfiguration.
type issuers struct {
	ctx  context.Context // fetching keys ends with it
	get  func() *apiserver.AuthenticationConfiguration
	algs []string
	own  []string

	mu    sync.Mutex
	made  *apiserver.AuthenticationConfiguration // the configuration of all
	all   []issuer
	token authenticator.Token
	err   error
}

// issuer authenticates tokens of one issuer. Reloads keep it while its configuration does not
// change, because it caches the issuer's keys.
type issuer struct {
	config apiserver.JWTAuthenticator
	token  authenticator.Token
	cancel context.CancelFunc
}

// newIssuers returns nil if no issuers are configured. It also returns the configuration of
// anonymous requests.
func newIssuers(ctx context.Context, cfg Config) (authenticator.Token, apiserver.AnonymousAuthConfig, error) {
	anonymousConfig := apiserver.AnonymousAuthConfig{Enabled: cfg.Anonymous == nil || *cfg.Anonymous}
	if cfg.ConfigFile == "" {
		if cfg.OIDC == nil {
			return nil, anonymousConfig, nil
		}
		config, err := cfg.OIDC.config(cfg.OwnIssuers)
		if err != nil {
			return nil, anonymousConfig, err
		}
		algs := cfg.OIDC.SigningAlgs
		if len(algs) == 0 {
			algs = []string{"RS256"}
		}
		i := &issuers{ctx: ctx, algs: algs, own: cfg.OwnIssuers, get: func() *apiserver.AuthenticationConfiguration {
			return config
		}}
		return i, anonymousConfig, i.checkAlgs()
	}
	if cfg.OIDC != nil {
		return nil, anonymousConfig, errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	}
	file, err := openConfig(cfg.ConfigFile, cfg.OwnIssuers, cfg.Log)
	if err != nil {
		return nil, anonymousConfig, flagError("authentication-config", err)
	}
	if own := file.Get().Anonymous; own != nil {
		if cfg.Anonymous != nil {
			return nil, anonymousConfig, errors.New(
				"anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
		}
		anonymousConfig = *own
	}
	return &issuers{ctx: ctx, algs: oidc.AllValidSigningAlgorithms(), own: cfg.OwnIssuers, get: file.Get},
		anonymousConfig, nil
}

// openConfig opens an AuthenticationConfiguration file and follows its changes. Issuers can change;
// the configuration of anonymous requests cannot.
func openConfig(name string, own []string, log *slog.Logger) (
	*filewatch.File[*apiserver.AuthenticationConfiguration], error) {
	var first *apiserver.AuthenticationConfiguration
	return filewatch.Open(name, func(data []byte) (*apiserver.AuthenticationConfiguration, error) {
		config, err := parseConfig(data)
		if err != nil {
			return nil, err
		}
		if err := validate(config, own); err != nil {
			return nil, err
		}
		if first == nil {
			first = config
		} else if !reflect.DeepEqual(first.Anonymous, config.Anonymous) {
			return nil, errors.New("changes to anonymous config are not allowed on reload")
		}
		return config, nil
	}, func(err error) {
		log.Error("reload authentication configuration: keeping the previous one", "err", err)
	})
}

func parseConfig(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	obj, err := runtime.Decode(configCodecs().UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", obj)
	}
	return config, nil
}

// AuthenticateToken implements authenticator.Token.
func (i *issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	all, err := i.current()
	if err != nil {
		return nil, false, err
	}
	return all.AuthenticateToken(ctx, token)
}

// current returns the authenticator of the current configuration.
func (i *issuers) current() (authenticator.Token, error) {
	config := i.get()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made == config {
		return i.token, i.err
	}
	i.made = config
	before := i.all
	i.all, i.err = nil, nil
	var tokens []authenticator.Token
	for _, jwt := range config.JWT {
		one, err := i.issuer(jwt, before)
		if err != nil {
			i.err = fmt.Errorf("create authenticator of issuer %s: %w", jwt.Issuer.URL, err)
			return nil, i.err
		}
		i.all, tokens = append(i.all, one), append(tokens, one.token)
	}
	for _, old := range before {
		if !kept(i.all, old) {
			old.cancel()
		}
	}
	i.token = tokenunion.NewFailOnError(tokens...)
	return i.token, nil
}

func kept(all []issuer, old issuer) bool {
	for _, one := range all {
		if reflect.DeepEqual(one.config, old.config) {
			return true
		}
	}
	return false
}

// issuer returns the previous authenticator of an issuer with the same configuration, or a new one.
func (i *issuers) issuer(jwt apiserver.JWTAuthenticator, before []issuer) (issuer, error) {
	for _, old := range before {
		if reflect.DeepEqual(old.config, jwt) {
			return old, nil
		}
	}
	ctx, cancel := context.WithCancel(i.ctx)
	keys, err := newKeySet(ctx, jwt.Issuer)
	if err != nil {
		cancel()
		return issuer{}, err
	}
	opts := oidc.Options{JWTAuthenticator: jwt, KeySet: keys, Client: keys.client, SupportedSigningAlgs: i.algs,
		DisallowedIssuers: i.own}
	opts.JWTAuthenticator.Issuer.DiscoveryURL = "" // the key set uses it
	token, err := oidc.New(ctx, opts)
	if err != nil {
		cancel()
		return issuer{}, err
	}
	return issuer{jwt, token, cancel}, nil
}

// checkAlgs rejects unsupported algorithms at the start. The plugin would reject them at the first
// token.
func (i *issuers) checkAlgs() error {
	for _, alg := range i.algs {
		if !slices.Contains(oidc.AllValidSigningAlgorithms(), alg) {
			return flagError("oidc-signing-algs", fmt.Errorf("unsupported signing alg: %q", alg))
		}
	}
	return nil
}
