package fileguard

import (
	"os"
	"testing"
)

func TestNetworkFileSystemsAreToldByTheirMagic(t *testing.T) {
	for magic, name := range map[uint32]string{
		0x6969: "NFS", 0x517b: "SMB", 0xfe534d42: "SMB", 0xff534d42: "SMB (CIFS)", 0x65735546: "FUSE", 0x01021997: "9p", 0x00c36400: "Ceph",
		// https://git.savannah.gnu.org/cgit/coreutils.git/tree/src/stat.c
		0x61636673: "ACFS", 0x013111a8: "IBRIX", 0xaad7aaea: "PanFS", 0xbeefdead: "StorNext", 0xa501fcf5: "VxFS, maybe of a cluster",
		0xbacbacbc: "a VMware shared folder", 0x7c7c6673: "a Parallels shared folder",
		0x20030528: "OrangeFS", // https://github.com/torvalds/linux/blob/master/fs/orangefs/protocol.h
		0x18031977: "WekaFS",
	} {
		if got := fileSystemOfMagic(magic); !got.network || got.name != name {
			t.Errorf("%#x: %+v; want the network file system %s", magic, got, name)
		}
	}
	for name, magic := range map[string]uint32{"ext4": 0xef53, "XFS": 0x58465342, "btrfs": 0x9123683e, "tmpfs": 0x01021994, "overlayfs": 0x794c7630, "ZFS": 0x2fc12fc1, "f2fs": 0xf2f52010} {
		if got := fileSystemOfMagic(magic); got.network {
			t.Errorf("%s is taken for %s", name, got.name)
		}
	}
}

func TestKernelIsAskedForTheKindOfFileSystem(t *testing.T) {
	if _, err := fileSystemOf(t.TempDir()); err != nil {
		t.Error(err)
	}
	if _, err := fileSystemOf("nowhere"); !os.IsNotExist(err) {
		t.Errorf("of what is not there: %v", err)
	}
}
