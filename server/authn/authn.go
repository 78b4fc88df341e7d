// Package authn finds out who makes a request that comes over the network.
//
// An authenticator is Kubernetes' own interface. [New] makes one of client certificates and of bearer tokens; whom it does not know
// is not refused here but anonymous to package chain. Credentials that are wrong are an error, which is a 401.
//
// Authenticators are safe for concurrent use.
//
//	auth, err := authn.New(authn.Config{ClientCAs: pool, TokenFile: "tokens.csv"})
//	chain.New(chain.Config{Authenticator: auth, …})
package authn

import (
	stdx509 "crypto/x509"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
)

// Config says which credentials count.
type Config struct {
	// ClientCAs are the authorities of client certificates: the common name is the user, organizations are groups. nil: none.
	ClientCAs *stdx509.CertPool
	// TokenFile is a CSV file of "token,user,uid,groups" as kube-apiserver's --token-auth-file. It is read once. "": none.
	TokenFile string
	// Tokens check bearer tokens of other kinds, in this order.
	Tokens []authenticator.Token
}

// Authenticator is what New makes.
type Authenticator = authenticator.Request

// New returns an authenticator of all the mechanisms in cfg, tried one after the other.
func New(cfg Config) (Authenticator, error) {
	var all []authenticator.Request
	if cfg.ClientCAs != nil {
		opts := x509.DefaultVerifyOptions()
		opts.Roots = cfg.ClientCAs
		all = append(all, x509.New(opts, x509.CommonNameUserConversion))
	}
	tokens := cfg.Tokens
	if cfg.TokenFile != "" {
		file, err := tokenfile.NewCSV(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("read token file: %w", err)
		}
		tokens = append([]authenticator.Token{file}, tokens...)
	}
	if len(tokens) > 0 {
		all = append(all, bearertoken.New(tokenunion.New(tokens...)))
	}
	return union.New(all...), nil
}
