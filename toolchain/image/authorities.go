package image

import (
	"bytes"
	"encoding/pem"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// authorities returns the certificates of the authorities that Mozilla trusts, in PEM. Authorities
// with a constraint that PEM can't express are omitted.
var authorities = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		// writes to a Buffer do not fail
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
	}
	return b.Bytes()
})
