package authn

import (
	stdx509 "crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"

	"k8s.io/client-go/util/cert"
)

// Published returns the data of the ConfigMap kube-system/extension-apiserver-authentication, which
// other servers need to trust the same clients and proxies. own (PEM) are authorities that are
// published if Config.ClientCAs contains one of them; a CertPool cannot list its certificates. The
// result is empty if client certificates and proxies are disabled.
func (a *Authenticator) Published(own []byte) map[string]string {
	data := map[string]string{}
	if a.clients != nil {
		clients := a.clients.current()
		all := clients.certs
		if certs, err := cert.ParseCertsPEM(own); err == nil && (&bundle{certs: certs}).overlap(clients) {
			all = slices.Concat(certs, all)
		}
		if len(all) > 0 {
			data[clientCAs] = string(encodeCerts(all))
		}
	}
	if a.proxies != nil {
		data[proxyCAs] = string(encodeCerts(a.proxies.current().certs))
		lists := map[string][]string{
			"requestheader-username-headers": a.header.Usernames, "requestheader-group-headers": a.header.Groups,
			"requestheader-extra-headers-prefix": a.header.ExtraPrefixes,
			"requestheader-allowed-names":        a.header.AllowedNames,
		}
		if len(a.header.UIDs) > 0 {
			lists["requestheader-uid-headers"] = a.header.UIDs
		}
		for key, list := range lists {
			data[key] = encodeList(list)
		}
	}
	return data
}

// The keys whose values are certificates. All other values are lists.
const (
	clientCAs = "client-ca-file"
	proxyCAs  = "requestheader-client-ca-file"
)

// JoinPublished returns the union of the data that several servers have published (there) and the
// data that one server adds (more).
func JoinPublished(there, more map[string]string) map[string]string {
	joint := make(map[string]string, len(more))
	for key, value := range there {
		joint[key] = value
	}
	for key, value := range more {
		switch key {
		case clientCAs, proxyCAs:
			joint[key] = joinCerts(there[key], value)
		default:
			joint[key] = joinLists(there[key], value)
		}
	}
	return joint
}

func joinCerts(published, more string) string {
	all, err := cert.ParseCertsPEM([]byte(published))
	if err != nil {
		return more // no server can use malformed certificates
	}
	added, err := cert.ParseCertsPEM([]byte(more))
	if err != nil {
		return published
	}
	n := len(all)
	for _, c := range added {
		if !slices.ContainsFunc(all, c.Equal) {
			all = append(all, c)
		}
	}
	if len(all) == n {
		return published
	}
	return string(encodeCerts(all))
}

func joinLists(published, more string) string {
	var all, added []string
	if json.Unmarshal([]byte(published), &all) != nil {
		return more
	}
	if json.Unmarshal([]byte(more), &added) != nil {
		return published
	}
	n := len(all)
	for _, s := range added {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if len(all) == n {
		return published
	}
	return encodeList(all)
}

func encodeList(list []string) string {
	if list == nil {
		list = []string{}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // encoding strings cannot fail
	}
	return string(text)
}

func encodeCerts(certs []*stdx509.Certificate) (out []byte) {
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
	}
	return out
}
