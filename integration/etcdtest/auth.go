package etcdtest

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// User is somebody who may log in once authentication is on: to read and write under Prefix, and nowhere else.
type User struct{ Name, Password, Prefix string }

// EnableAuth creates root with the password, which must not be empty, and the users, and turns authentication on. Clients
// that the cluster makes later log in as root; use As for another user. Clients without a login that exist already
// are refused from now on.
func (c *Cluster) EnableAuth(ctx context.Context, password string, users ...User) (err error) {
	if password == "" {
		return errors.New("etcdtest: enable auth: root needs a password")
	}
	client, err := c.NewClient()
	if err != nil {
		return err
	}
	defer client.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("etcdtest: enable auth: %w", err)
		}
	}()
	if _, err := client.UserAdd(ctx, "root", password); err != nil {
		return err
	}
	if _, err := client.UserGrantRole(ctx, "root", "root"); err != nil {
		return err
	}
	for _, u := range users {
		if err := addUser(ctx, client, u); err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.root = password
	c.mu.Unlock()
	return nil
}

func addUser(ctx context.Context, client *clientv3.Client, u User) error {
	if _, err := client.RoleAdd(ctx, u.Name); err != nil {
		return err
	}
	end := clientv3.GetPrefixRangeEnd(u.Prefix)
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	if _, err := client.RoleGrantPermission(ctx, u.Name, u.Prefix, end, readWrite); err != nil {
		return err
	}
	if _, err := client.UserAdd(ctx, u.Name, u.Password); err != nil {
		return err
	}
	_, err := client.UserGrantRole(ctx, u.Name, u.Name)
	return err
}

// As makes the client log in as this user.
func As(name, password string) Edit {
	return func(cfg *clientv3.Config) { cfg.Username, cfg.Password = name, password }
}
