package tokens

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/kubernetes/pkg/serviceaccount"

	"kelson.dev/apiserver/rest/wire"
)

// KeySetPath is the path of the tokens' public keys.
const KeySetPath = serviceaccount.JWKSPath

// Discovery returns, by path, the handlers of the documents with which other services verify
// tokens: the issuer's configuration and its keys. It returns none unless the first issuer is an
// https URL, as OpenID Connect requires. The documents are created on first request.
func (i *Issuer) Discovery() map[string]http.Handler {
	issuer, err := url.Parse(i.cfg.Issuers[0])
	if err != nil || issuer.Scheme != "https" || issuer.RawQuery != "" || issuer.Fragment != "" {
		return nil
	}
	keysAt := i.cfg.KeySetURL
	if keysAt == "" {
		keysAt = strings.TrimSuffix(i.cfg.Issuers[0], "/") + KeySetPath
	}
	provider := sync.OnceValues(func() (serviceaccount.OpenIDMetadataProvider, error) {
		return serviceaccount.NewOpenIDMetadataProvider(i.cfg.Issuers[0], keysAt, "", i.keys)
	})
	serve := func(media string, document func(serviceaccount.OpenIDMetadataProvider) ([]byte, int)) http.Handler {
		return wire.Document(media, func(w http.ResponseWriter, _ *http.Request) {
			p, err := provider()
			if err != nil {
				http.Error(w, "404 page not found", http.StatusNotFound)
				return
			}
			body, age := document(p)
			w.Header().Set("Content-Type", media)
			w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", age))
			_, _ = w.Write(body) // ignore clients that have disconnected
		})
	}
	return map[string]http.Handler{
		serviceaccount.OpenIDConfigPath: serve("application/json", serviceaccount.OpenIDMetadataProvider.GetConfigJSON),
		KeySetPath: serve("application/jwk-set+json",
			serviceaccount.OpenIDMetadataProvider.GetKeysetJSON),
	}
}
