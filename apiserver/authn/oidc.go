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

// OIDC is one OpenID Connect issuer, as kube-apiserver's --oidc-* flags describe it.
type OIDC struct {
	IssuerURL, ClientID string
	// CAFile has the authorities of the issuer's server; "": those of this machine.
	CAFile string
	// UsernameClaim names the user; "" means sub. GroupsClaim names the groups; "": there are none.
	UsernameClaim, GroupsClaim string
	// UsernamePrefix goes before user names; "" means the issuer and a # (none for the claim email), "-" means none.
	UsernamePrefix string
	GroupsPrefix   string
	// RequiredClaims must have these values.
	RequiredClaims map[string]string
	// SigningAlgs are the accepted ones; none: RS256.
	SigningAlgs []string
}

// config says the same as an AuthenticationConfiguration.
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
		Issuer:        apiserver.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}},
	}
	if o.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	for _, claim := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: claim, RequiredValue: o.RequiredClaims[claim]})
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

// validate compiles all expressions, too.
func validate(config *apiserver.AuthenticationConfiguration, ownIssuers []string) error {
	errs := validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), config, ownIssuers)
	for _, jwt := range config.JWT {
		if jwt.Issuer.EgressSelectorType != "" {
			return fmt.Errorf("issuer %s: there is no egress selector", jwt.Issuer.URL)
		}
	}
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("invalid authentication configuration: %w", err)
	}
	return nil
}
