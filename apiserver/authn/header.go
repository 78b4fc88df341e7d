package authn

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"

	"kelson.dev/apiserver/internal/clientcert"
)

// RequestHeader configures an authenticating proxy. A client with a certificate of the proxies'
// authorities names the user in request headers.
type RequestHeader struct {
	// ClientCAFile has the authorities of proxies. It is required.
	ClientCAFile string
	// AllowedNames are the accepted common names of proxy certificates; empty means any.
	AllowedNames []string
	// Usernames, UIDs and Groups are names of headers; ExtraPrefixes are prefixes of the headers of
	// extra attributes. The first of Usernames and of UIDs that is set is used.
	Usernames, UIDs, Groups, ExtraPrefixes []string
}

// errOverlap has kube-apiserver's wording. With overlapping authorities, every client certificate
// would be accepted as a proxy's.
var errOverlap = errors.New("--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names " +
	"must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users")

func (r *RequestHeader) authorities(clients *authorities, log *slog.Logger) (*authorities, error) {
	for flag, values := range map[string][]string{
		"requestheader-username-headers": r.Usernames, "requestheader-uid-headers": r.UIDs,
		"requestheader-group-headers":        r.Groups,
		"requestheader-extra-headers-prefix": r.ExtraPrefixes, "requestheader-allowed-names": r.AllowedNames,
	} {
		if slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			return nil, fmt.Errorf("empty value in %q", flag)
		}
	}
	if len(r.UIDs) > 0 && !slices.ContainsFunc(r.UIDs, func(h string) bool {
		return strings.EqualFold(h, "X-Remote-Uid")
	}) {
		return nil, errors.New("--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work")
	}
	proxies, err := newAuthorities(nil, r.ClientCAFile, log)
	if err != nil {
		return nil, flagError("requestheader-client-ca-file", err)
	}
	if clients != nil && len(r.AllowedNames) == 0 && proxies.current().overlap(clients.current()) {
		return nil, errOverlap
	}
	return proxies, nil
}

// authenticator returns the authenticator of proxies. onlyNamed skips requests that do not name a
// user.
func (r *RequestHeader) authenticator(authorities *authorities, onlyNamed bool) authenticator.Request {
	list := func(values []string) headerrequest.StringSliceProvider {
		return headerrequest.StaticStringSlice(values)
	}
	return clientcert.Proxies{
		Authorities: authorities.verifyOptions, AllowedNames: list(r.AllowedNames),
		Usernames: list(r.Usernames), UIDs: list(r.UIDs), Groups: list(r.Groups), ExtraPrefixes: list(r.ExtraPrefixes),
		OnlyNamed: onlyNamed,
	}.Authenticator()
}

// deleteCredentials deletes the Authorization header and the standard headers of authenticating
// proxies, so that servers behind this one do not trust them.
func deleteCredentials(h http.Header) {
	h.Del("Authorization")
	for name := range h {
		if len(name) > len("X-Remote-") && strings.EqualFold(name[:len("X-Remote-")], "X-Remote-") {
			switch rest := strings.ToLower(name[len("X-Remote-"):]); {
			case rest == "user", rest == "uid", rest == "group", strings.HasPrefix(rest, "extra-"):
				delete(h, name)
			}
		}
	}
}
