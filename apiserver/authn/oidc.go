package authn

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/cel"
)

// OIDC configures one OpenID Connect issuer with the settings of kube-apiserver's --oidc-* flags.
type OIDC struct {
	IssuerURL, ClientID string
	// CAFile has the authorities of the issuer's serving certificate; "" means the system's.
	CAFile string
	// UsernameClaim is the claim with the user name; "" means sub. GroupsClaim is the claim with
	// the groups; "" means no groups.
	UsernameClaim, GroupsClaim string
	// UsernamePrefix is the prefix of user names; "" means the issuer's URL and a # (none for the
	// claim email), "-" means none.
	UsernamePrefix string
	GroupsPrefix   string
	// RequiredClaims are the claims and values that tokens must have.
	RequiredClaims map[string]string
	// SigningAlgs are the accepted signing algorithms; empty means RS256.
	SigningAlgs []string
}

// config returns the equivalent AuthenticationConfiguration.
func (o *OIDC) config(ownIssuers []string) (*apiserver.AuthenticationConfiguration, error) {
	if o.IssuerURL == "" || o.ClientID == "" {
		return nil, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	claim, prefix := o.UsernameClaim, o.UsernamePrefix
	if claim == "" {
		claim = "sub"
	}
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	}
	jwt := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: claim,
			Prefix: &prefix}},
	}
	if o.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	for _, claim := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules,
			apiserver.ClaimValidationRule{Claim: claim, RequiredValue: o.RequiredClaims[claim]})
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, flagError("oidc-ca-file", err)
		}
		jwt.Issuer.CertificateAuthority = string(pem)
	}
	config := &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{jwt}}
	return config, validate(config, ownIssuers)
}

// validate validates a configuration and compiles all its CEL expressions.
func validate(config *apiserver.AuthenticationConfiguration, ownIssuers []string) error {
	errs := validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), config, ownIssuers)
	for _, jwt := range config.JWT {
		if jwt.Issuer.EgressSelectorType != "" {
			return fmt.Errorf("issuer %s: egressSelectorType is not supported", jwt.Issuer.URL)
		}
	}
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("invalid authentication configuration: %w", err)
	}
	return nil
}
