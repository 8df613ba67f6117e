exec sleep 900
