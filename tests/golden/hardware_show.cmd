hardware show jean_zay_v100 --format csv
