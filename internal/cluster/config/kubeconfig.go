package config

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Access is what a kubeconfig says.
type Access struct {
	// Cluster names the cluster and the context.
	Cluster string
	Server  string
	User    string
	CA      []byte
	// Certificate and Key are the user's, in PEM.
	Certificate []byte
	Key         []byte
}

// Kubeconfig renders a kubeconfig that needs no other file.
func Kubeconfig(a Access) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[a.Cluster] = &clientcmdapi.Cluster{Server: a.Server, CertificateAuthorityData: a.CA}
	config.AuthInfos[a.User] = &clientcmdapi.AuthInfo{ClientCertificateData: a.Certificate, ClientKeyData: a.Key}
	config.Contexts[a.Cluster] = &clientcmdapi.Context{Cluster: a.Cluster, AuthInfo: a.User}
	config.CurrentContext = a.Cluster
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("render the kubeconfig of %s: %w", a.User, err)
	}
	return data, nil
}
