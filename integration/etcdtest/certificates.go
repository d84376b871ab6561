package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are the files of a cluster with Options.TLS, for programs that take file names. They vanish when the
// cluster is closed. The authority's key is never written.
type Certificates struct {
	CAFile   string // the authority that signed the members' certificates
	CertFile string // a client certificate, common name "etcdtest-client"
	KeyFile  string // its key

	serverCert, serverKey string
	pool                  *x509.CertPool
	client                tls.Certificate
}

// Certificates returns nil for a cluster without TLS.
func (c *Cluster) Certificates() *Certificates { return c.certs }

// ClientConfig is what a client needs to be let in.
func (c *Certificates) ClientConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.pool, Certificates: []tls.Certificate{c.client}}
}

func newCertificates(dir string) (_ *Certificates, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("etcdtest: making certificates: %w", err)
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := certificate(1, "etcdtest-ca")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	c := &Certificates{CAFile: filepath.Join(dir, "ca.pem"), pool: x509.NewCertPool()}
	if err := writePEM(c.CAFile, "CERTIFICATE", caDER); err != nil {
		return nil, err
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return nil, err
	}
	c.pool.AddCert(ca)

	server := certificate(2, "etcdtest-server")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	server.DNSNames = []string{"localhost"}
	c.serverCert, c.serverKey, err = issue(dir, "server", server, ca, caKey)
	if err != nil {
		return nil, err
	}
	c.CertFile, c.KeyFile, err = issue(dir, "client", certificate(3, "etcdtest-client"), ca, caKey)
	if err != nil {
		return nil, err
	}
	c.client, err = tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	return c, err
}

// certificate is a template that serves for both ends: a member also calls its own client port.
func certificate(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func issue(dir, name string, tmpl, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	certDER, err := x509.CreateCertificate(rand.Reader, tmpl, ca, k.Public(), caKey)
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	if err := writePEM(cert, "CERTIFICATE", certDER); err != nil {
		return "", "", err
	}
	return cert, key, writePEM(key, "PRIVATE KEY", keyDER)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
